module github.com/stint-dev/stint/cmd/stint

go 1.26.0

require (
	github.com/creack/pty v1.1.24
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/rogpeppe/go-internal v1.16.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/stint-dev/stint v0.0.0
	github.com/stint-dev/stint/backends/sqlite v0.0.0
	github.com/stint-dev/stint/sim v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
	golang.org/x/term v0.48.0
)

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	go.etcd.io/raft/v3 v3.7.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace github.com/stint-dev/stint => ../..

replace github.com/stint-dev/stint/backends/sqlite => ../../backends/sqlite

replace github.com/stint-dev/stint/sim => ../../sim
