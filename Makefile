# The commands of a checkout; `make help` lists them. Every module of go.work is
# covered by the pattern `work`; only lint, for macOS, has them one by one.

GO          ?= go
TIMEOUT     ?= 20m
STATICCHECK := bin/staticcheck

# The commit is stamped into bin/stint, unless git does not answer here (a
# checkout that belongs to another user, an unpacked archive).
VCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)

.DEFAULT_GOAL := help
.PHONY: help build demo test lab lint bench bench-etcd bench-sql plant clean need

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

build: need ## make bin/stint
	$(GO) build -buildvcs=$(VCS) -o bin/stint ./cmd/stint

demo: build ## run the billing job with a worker frozen past its lease
	bin/stint demo billing

# The race detector needs a C compiler; tools/need names or installs it. All is
# compiled before the first test runs, and what starts servers and processes has
# the machine to itself: a lease of a few seconds runs out beside a compiler.
ALONE := /lab/|/cmd/stint$$

test: need ## every test of every module, with the race detector
	@tools/need packages
	@echo "compiling everything with the race detector: minutes, the first time"
	@CGO_ENABLED=1 $(GO) list -race -test -export work >/dev/null
	CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) $$(CGO_ENABLED=1 $(GO) list -race work | grep -Ev '$(ALONE)')
	CGO_ENABLED=1 $(GO) test -race -timeout $(TIMEOUT) -p 1 $$(CGO_ENABLED=1 $(GO) list -race work | grep -E '$(ALONE)')

lab: need ## the tests on real servers (etcd, PostgreSQL, MariaDB) with all their trials
	CGO_ENABLED=1 $(GO) test -race -timeout 30m ./lab/etcdtests -long
	CGO_ENABLED=1 $(GO) test -race -timeout 10m ./cmd/stint -run 'TestAKeyIsDoneOnce|HoweverTheirStintsEnd' -long
	@tools/need packages
	$(GO) test -timeout 60m ./lab/sqltests -long

# vet runs for macOS too: the clock and the process handling differ there, and
# no machine of CI would notice that they stopped compiling. (bench measures on
# Linux alone.) Without optimizing, SQLite compiles in two thirds of the time,
# and what is compiled for macOS is not run here.
lint: need $(STATICCHECK) ## gofmt, vet (Linux and macOS), staticcheck
	@out=$$(gofmt -l .); \
	  [ -z "$$out" ] || { echo "not formatted; run gofmt -w on:"; echo "$$out"; exit 1; }
	$(GO) vet work
	GOOS=darwin CGO_ENABLED=0 $(GO) vet -gcflags='all=-N -l' ./... ./backends/... ./backends/grpcfence/... ./backends/pgfence/... ./backends/sqlite/... ./cmd/stint/...
	$(STATICCHECK) work

# The linter is pinned in a module of its own, outside go.work, so that its
# dependencies are nobody else's.
$(STATICCHECK): tools/go.mod tools/go.sum
	@mkdir -p bin
	cd tools && GOWORK=off $(GO) build -buildvcs=false -o ../$(STATICCHECK) honnef.co/go/tools/cmd/staticcheck

bench: need ## measure what the project promises; fails when a bar is missed
	$(GO) run -buildvcs=$(VCS) ./bench

# Servers and all, about ten minutes; `go run ./bench/etcd -quick` only shows that
# it works.
bench-etcd: need ## etcd's own locks beside ours; fails when a bar is missed
	$(GO) run -buildvcs=$(VCS) ./bench/etcd

# Private servers with every commit on disk; `go run ./bench/sql -quick` only shows
# that it works.
bench-sql: need ## what a fence costs in PostgreSQL and MariaDB; fails when a bar is missed
	@tools/need packages
	$(GO) run -buildvcs=$(VCS) ./bench/sql

# Each bug is compiled in place of the protocol's own file, and hunted.
plant: need ## plant bugs in the protocol, and see what catches them
	$(GO) test ./sim/plant -run TestPlantedBugsAreCaught -all -runs 20000 -v -timeout 60m

clean: ## remove what make has built
	rm -rf bin

need:
	@GO="$(GO)" tools/need go
