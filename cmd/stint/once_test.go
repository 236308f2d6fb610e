package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// long runs the trials of this package in their full number.
var long = flag.Bool("long", false, "run 200 races of --once in place of 24")

// Two stints at a time are started for one key. Half of the races keep their
// record at the authority, half in the transaction that sets DONE.
func TestAKeyIsDoneOnceHoweverManyRaceForIt(t *testing.T) {
	w := newWorld(t)
	races := 24
	if *long {
		races = 200
	}
	w.store("store.db")
	fence := "sqlite://" + w.path("store.db")
	var all sync.WaitGroup
	for lane := range 4 {
		all.Go(func() {
			for i := lane; i < races; i += 4 {
				key, name := fmt.Sprintf("key-%d", i), fmt.Sprintf("job-%d", lane)
				args := []string{"run", name, "-q", "--once", key}
				if i%2 == 0 {
					args = append(args, "--fence", fence)
				}
				args = append(args, "--", "sh", "-c", "echo $$ >>"+key)
				a, b := w.start(args...), w.start(args...)
				for _, p := range []*process{a, b} {
					select {
					case <-p.done:
					case <-time.After(limit):
						t.Errorf("%s: stint did not end within %v", key, limit)
						return
					}
					if c := p.ProcessState.ExitCode(); c != 0 {
						t.Errorf("%s: exit code %d:\n%s", key, c, p.out.String())
					}
				}
				if ran, _ := os.ReadFile(w.path(key)); strings.Count(string(ran), "\n") != 1 {
					t.Errorf("%s was done by: %q", key, ran)
				}
			}
		})
	}
	all.Wait()
}

// store makes a user's database.
func (w *world) store(name string) {
	w.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+w.path(name))
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), "PRAGMA journal_mode=wal; CREATE TABLE invoices (id INTEGER)"); err != nil {
		w.t.Fatal(err)
	}
}

// A holder that was frozen between its command's end and the record must not
// record what a later one has taken over: with a fence that is one transaction.
func TestAHolderThatWasOvertakenRecordsNothingInTheFencesStore(t *testing.T) {
	w := newWorld(t)
	w.store("store.db")
	fence := "sqlite://" + w.path("store.db")
	a := w.start("run", "k", "--once", "key", "--fence", fence, "--", "sh", "-c", "echo >ready; until [ -e go ]; do sleep 0.01; done")
	w.content("ready")
	// Somebody raises the fence above it, as a successor does.
	w.run("release", "k", "--token", "1", "--reason", "test", "--fence", fence, "--yes").expect(0)
	w.make("go")
	a.expect(76)
	b := w.run("run", "k", "--once", "key", "--fence", fence, "--skip-exit-code", "9", "--", "true")
	b.expect(0) // it was not recorded, so this one runs
	w.run("run", "k", "--once", "key", "--fence", fence, "--skip-exit-code", "9", "--", "true").expect(9)
}

// The job that takes a second must not be done again by the host whose clock is
// a minute late.
func TestTheLeaseIsKeptForAsLongAsAtLeastSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const least = 3 * time.Second
	before := time.Now()
	a := w.start("run", "k", "--at-least", least.String(), "--", "sh", "-c", "echo >done")
	w.content("done")
	b := w.start("run", "k", "--", "sh", "-c", "echo >second") // on a slow machine it may come too late to wait
	w.content("second")
	if d := time.Since(before); d < least {
		t.Errorf("the second one was let in after %v", d)
	}
	a.expect(0)
	b.expect(0)
	a.told("is kept until")
}

func TestOnlyASuccessKeepsTheLease(t *testing.T) {
	w := newWorld(t)
	w.run("run", "k", "--at-least", "1h", "--", "sh", "-c", "exit 3").expect(3)
	if w.inspect(w.open(), "k").Held {
		t.Error("a job that failed cannot be tried again for an hour")
	}
}

func TestASignalEndsTheKeepingAtOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			w := newWorld(t)
			a := w.start("run", "k", "--at-least", "1h", "--", "true")
			a.told("is kept until")
			a.signal(sig)
			a.expect(0)
			a.told("the lease is given back")
			if w.inspect(w.open(), "k").Held {
				t.Error("the lease is still held")
			}
		})
	}
}

// What kill -9 leaves of it is a lease that runs out.
func TestAKeptLeaseRunsOutWhenItsStintIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("run", "k", "--ttl", "5s", "--at-least", "1h", "--", "true")
	a.told("is kept until")
	a.signal(syscall.SIGKILL)
	a.code()
	w.run("run", "k", "--", "true").expect(0)
}
