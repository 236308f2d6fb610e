// Package storetest is the conformance suite of idempotent.Store.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/idempotent"
)

// Subject is an empty store, and the fence beside it.
type Subject struct {
	Store idempotent.Store
	Fence fence.Fence
}

// Run tests what open makes.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"a record is kept as it was written":          kept,
		"a record is changed only as it was seen":     swapped,
		"a record of a late holder is not written":    fenced,
		"one of many creates a record":                raced,
		"what is open is listed, and can be resolved": listed,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func raise(t *testing.T, s Subject, token fence.Token) fence.Claim {
	t.Helper()
	c, err := s.Fence.Raise(t.Context(), "payments", fence.Grant{Token: token, Nonce: fmt.Sprintf("n%d", token)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func by(c fence.Claim, s idempotent.State, try, result string) idempotent.Record {
	return idempotent.Record{State: s, Grant: c.Grant, Nonce: try, Result: result}
}

var none idempotent.Record

// patience bounds the wait for what must happen.
const patience = 30 * time.Second

func kept(t *testing.T, s Subject) {
	c := raise(t, s, 7)
	keys := []string{"a", "A", "a ", "é", "e\u0301", "日本/#%?$1", strings.Repeat("k", fence.MaxName)}
	for i, key := range keys {
		for _, r := range []idempotent.Record{by(c, idempotent.Pending, "x", ""), by(c, idempotent.Done, "x", fmt.Sprintf("receipt %d, für ?$1 '\"\\", i))} {
			was, err := s.Store.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Store.Set(t.Context(), c, key, was, r); err != nil {
				t.Fatalf("%.20q: %v", key, err)
			}
			if got, err := s.Store.Get(t.Context(), key); err != nil || got != r {
				t.Errorf("%.20q: %v, %v; want %v", key, got, err, r)
			}
		}
	}
	for i, key := range keys { // none was taken for another
		if r, err := s.Store.Get(t.Context(), key); err != nil || !strings.HasPrefix(r.Result, fmt.Sprintf("receipt %d,", i)) {
			t.Errorf("%.20q: %v, %v", key, r, err)
		}
	}
}

func swapped(t *testing.T, s Subject) {
	c := raise(t, s, 7)
	pending, other, done := by(c, idempotent.Pending, "x", ""), by(c, idempotent.Pending, "y", ""), by(c, idempotent.Done, "x", "ok")
	for i, step := range []struct {
		was, now, is idempotent.Record
		want         error
	}{
		{pending, done, none, fence.ErrChanged},
		{pending, none, none, nil}, // it is so already
		{none, pending, pending, nil},
		{none, pending, pending, nil}, // repeated, because the answer was lost
		{none, other, pending, fence.ErrChanged},
		{other, done, pending, fence.ErrChanged},
		{other, none, pending, fence.ErrChanged},
		{pending, done, done, nil},
		{pending, done, done, nil},
		{pending, none, done, fence.ErrChanged},
		{done, none, none, nil},
	} {
		if err := s.Store.Set(t.Context(), c, "k", step.was, step.now); !errors.Is(err, step.want) {
			t.Errorf("step %d, %v to %v: %v, want %v", i, step.was, step.now, err, step.want)
		}
		if got, err := s.Store.Get(t.Context(), "k"); err != nil || got != step.is {
			t.Fatalf("step %d: %v, %v; want %v", i, got, err, step.is)
		}
	}
}

func fenced(t *testing.T, s Subject) {
	seven := raise(t, s, 7)
	pending := by(seven, idempotent.Pending, "x", "")
	if err := s.Store.Set(t.Context(), seven, "k", none, pending); err != nil {
		t.Fatal(err)
	}
	twelve := raise(t, s, 12)
	if err := s.Store.Set(t.Context(), seven, "k", pending, by(seven, idempotent.Done, "x", "")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("written by 7 after 12: %v", err)
	}
	if err := s.Store.Set(t.Context(), fence.Claim{Name: "nobody", Grant: twelve.Grant}, "k", pending, none); !errors.Is(err, fence.ErrNoFence) {
		t.Errorf("written under a fence that nobody raised: %v", err)
	}
	if got, err := s.Store.Get(t.Context(), "k"); err != nil || got != pending {
		t.Errorf("now %v, %v", got, err)
	}
	if err := s.Store.Set(t.Context(), twelve, "k", pending, by(twelve, idempotent.Done, "x", "")); err != nil {
		t.Errorf("written by 12: %v", err)
	}
}

func raced(t *testing.T, s Subject) {
	c := raise(t, s, 7)
	var mu sync.Mutex
	var won []string
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			try := fmt.Sprintf("try%d", i)
			for started := time.Now(); ; {
				err := s.Store.Set(context.Background(), c, "k", none, by(c, idempotent.Pending, try, ""))
				if errors.Is(err, fence.ErrChanged) {
					return
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, try)
					return
				}
				// Locked, or undone for another's sake: not definite, so again.
				if time.Since(started) > patience {
					t.Errorf("%s in vain: %v", try, err)
					return
				}
			}
		})
	}
	all.Wait()
	if got, err := s.Store.Get(t.Context(), "k"); err != nil || len(won) != 1 || got.Nonce != won[0] {
		t.Errorf("created by %v, now %v, %v", won, got, err)
	}
}

func listed(t *testing.T, s Subject) {
	c := raise(t, s, 7)
	for key, r := range map[string]idempotent.Record{
		"c": by(c, idempotent.Pending, "x", ""), "a": by(c, idempotent.Unknown, "x", ""), "b": by(c, idempotent.Done, "x", "ok"),
	} {
		if err := s.Store.Set(t.Context(), c, key, none, r); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.Store.List(t.Context()); err != nil || len(all) != 2 || all[0].Key != "a" || all[1].Key != "c" || all[0].State != idempotent.Unknown {
		t.Errorf("listed are %v, %v", all, err)
	}
	if err := idempotent.Resolve(t.Context(), s.Store, c, "a", true, "paper receipt"); err != nil {
		t.Error(err)
	}
	if err := idempotent.Resolve(t.Context(), s.Store, c, "c", false, ""); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"a", "b", "none"} { // settled, or never begun
		if err := idempotent.Resolve(t.Context(), s.Store, c, key, false, ""); !errors.Is(err, fence.ErrChanged) {
			t.Errorf("%s was resolved again: %v", key, err)
		}
	}
	if r, err := s.Store.Get(t.Context(), "a"); err != nil || r.State != idempotent.Done || r.Result != "paper receipt" {
		t.Errorf("a is %v, %v", r, err)
	}
	if all, err := s.Store.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("listed are %v, %v", all, err)
	}
}
