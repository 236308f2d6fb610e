// Package fencetest is the conformance suite of the resource's side: named
// cases, each with the sentence of the contract that it defends.
//
//	func TestConformance(t *testing.T) {
//		fencetest.Run(t, fencetest.Subject{Open: open})
//	}
package fencetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Subject is what is tested.
type Subject struct {
	// Open makes a fresh and empty store for one case.
	Open func(t *testing.T) Handle
	// NoBar and NoPrune declare that the fence cannot do this. Without them a
	// missing function is a failure.
	NoBar, NoPrune bool
}

// Handle is one open store.
type Handle struct {
	Store
	// Peer is another handle of the same store, best in another process. Nil:
	// there is only one, and it is used in its place.
	Peer *Store
}

// Store is a fence with the data that it guards: a few keys with values.
type Store struct {
	Fence fence.Fence
	// Write sets a key under the claim. between, if not nil, is called after the
	// check and before the commit; its error or panic abandons the write and
	// comes back. A Peer ignores it.
	Write func(ctx context.Context, c fence.Claim, key, value string, between func() error) error
	// Read gives the key's value, empty if there is none.
	Read func(ctx context.Context, key string) (string, error)
	// Remove deletes all data, not the fence.
	Remove func(ctx context.Context) error
	// Row reads the fence row; a missing one matches fence.ErrNoFence.
	Row func(ctx context.Context, name string) (fence.Row, error)
	// Bar and Prune as sqlfence has them.
	Bar   func(ctx context.Context, name string, token fence.Token) error
	Prune func(ctx context.Context, idle time.Duration) (int, error)
}

// Case is one promise.
type Case struct {
	Name     string
	Sentence string // what it defends
	needs    need
	run      func(*env)
}

type need int

const (
	bar need = 1 << iota
	prune
)

// Cases lists all cases, for documentation.
func Cases() []Case {
	return slices.Concat(admitCases, raiseCases, claimCases, atomicCases, inputCases, operatorCases)
}

// Run tests s against every case.
func Run(t *testing.T, s Subject) {
	for _, c := range Cases() {
		if c.needs&bar != 0 && s.NoBar || c.needs&prune != 0 && s.NoPrune {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			h := s.Open(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			e := &env{T: t, ctx: ctx, a: h.Store, b: h.Store}
			if h.Peer != nil {
				e.b = *h.Peer
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("this defends: %s", c.Sentence)
				}
			})
			c.run(e)
		})
	}
}

// env is what a case works with: two handles of one store.
type env struct {
	*testing.T
	ctx  context.Context
	a, b Store
}

const job = "billing"

func grant(token fence.Token, nonce string) fence.Grant {
	return fence.Grant{Token: token, Nonce: nonce}
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("unexpected error: %v", err)
	}
}

func (e *env) wants(err, target error) {
	e.Helper()
	if !errors.Is(err, target) {
		e.Fatalf("error is %v, want one that matches %q", err, target)
	}
}

func (e *env) raise(s Store, name string, g fence.Grant) fence.Claim {
	e.Helper()
	c, err := s.Fence.Raise(e.ctx, name, g)
	e.must(err)
	if c.Name != name || c.Grant != g {
		e.Fatalf("the claim is %q %v, want %q %v", c.Name, c.Grant, name, g)
	}
	return c
}

func (e *env) write(s Store, c fence.Claim, key, value string) {
	e.Helper()
	e.must(s.Write(e.ctx, c, key, value, nil))
}

// holds demands that both handles read value.
func (e *env) holds(key, value string) {
	e.Helper()
	for _, s := range []Store{e.a, e.b} {
		if got, err := s.Read(e.ctx, key); err != nil || got != value {
			e.Fatalf("%s is %q (%v), want %q", key, got, err, value)
		}
	}
}

func (e *env) row(name string) fence.Row {
	e.Helper()
	r, err := e.a.Row(e.ctx, name)
	e.must(err)
	return r
}

// same compares rows; the store's clock is for people.
func (e *env) same(got, want fence.Row) {
	e.Helper()
	if !got.Since.Equal(want.Since) {
		e.Fatalf("row is claimed since %v, want %v", got.Since, want.Since)
	}
	got.Since, want.Since = time.Time{}, time.Time{}
	if got != want {
		e.Fatalf("row is %+v, want %+v", got, want)
	}
}

func (e *env) claims(s Store) (names []string) {
	e.Helper()
	for r, err := range s.Fence.Claims(e.ctx) {
		e.must(err)
		if r.State != fence.Running {
			e.Fatalf("the index lists %+v", r)
		}
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

func (e *env) claimed(want ...string) {
	e.Helper()
	slices.Sort(want)
	for _, s := range []Store{e.a, e.b} {
		if got := e.claims(s); !slices.Equal(got, want) {
			e.Fatalf("claims are %q, want %q", got, want)
		}
	}
}
