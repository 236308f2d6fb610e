package billing

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/authority/memlease"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

const lostChunks, lostPerChunk = 3, 3

// lossy is a job in this process, with one fault under its authority or under
// its database driver.
type lossy struct {
	path   string
	plan   faulty.Plan
	hook   faultsql.Hook
	ttl    time.Duration // zero: 1 s
	events []Event
}

// run bills everything and returns how that ended.
func (l *lossy) run(t *testing.T) error {
	t.Helper()
	// The job needs a second or so; it must end by itself and not by this.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l.path = filepath.Join(t.TempDir(), "store.db")
	if err := Prepare(ctx, l.path, lostChunks, lostPerChunk); err != nil {
		t.Fatal(err)
	}
	if l.hook == nil {
		l.hook = func(faultsql.Request, faultsql.When) error { return nil }
	}
	db, err := faultsql.Open("sqlite3", DSN(l.path, time.Second), l.hook)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fences, err := Fences(db)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{who: "A", tell: func(e Event) { l.events = append(l.events, e) }}
	a := faulty.New(memlease.New(authority.BootClock{}), l.plan)
	defer a.Close()
	ttl := cmp.Or(l.ttl, time.Second)
	client, err := stint.New(s.watch(a), stint.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w := &Worker{Client: client, Fence: fences, InTx: fences.InTx, Store: &Store{DB: db}, Who: "A", Limit: ttl, stage: s}
	return w.Run(ctx)
}

// billedOnce demands that the job is done, and that every invoice was charged
// and every chunk marked exactly once.
func (l *lossy) billedOnce(t *testing.T) {
	t.Helper()
	db, err := OpenDB(l.path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := (&Store{DB: db}).Count(t.Context())
	if err != nil || !c.OK() || c.Once != lostChunks*lostPerChunk {
		t.Errorf("%v (%v)", c, err)
	}
	var marks int
	var state fence.State
	err = db.QueryRow(`SELECT (SELECT count(*) FROM chunks), (SELECT state FROM stint_fence)`).Scan(&marks, &state)
	if err != nil || marks != lostChunks || state != fence.Done {
		t.Errorf("%d chunks are marked, the job is %s (%v); want %d and DONE", marks, state, err, lostChunks)
	}
	if t.Failed() {
		t.Logf("it said:\n%s", said(l.events))
	}
}

// Each request to the authority is lost once, before it was applied and after,
// with an error and with silence: the job completes, and nothing is billed twice.
func TestLostAnswerOfAuthorityBillsOnce(t *testing.T) {
	for op, requests := range map[string]int{"acquire": 1, "renew": 2, "release": 1} {
		for _, f := range []faulty.Fault{
			{DropRequest: true}, {DropAnswer: true},
			{DropRequest: true, Hang: true}, {DropAnswer: true, Hang: true},
		} {
			for n := 1; n <= requests; n++ {
				t.Run(fmt.Sprintf("%s %d %+v", op, n, f), func(t *testing.T) {
					t.Parallel()
					loseAtAuthority(t, op, n, f)
				})
			}
		}
	}
}

func loseAtAuthority(t *testing.T, op string, n int, f faulty.Fault) {
	var hit atomic.Bool
	l := &lossy{plan: func(o string, i int) faulty.Fault {
		if o == op && i == n {
			hit.Store(true)
			return f
		}
		return faulty.Pass
	}}
	if op == "renew" { // the job lasts until the renewal, however late that is
		l.hook = func(r faultsql.Request, w faultsql.When) error {
			for end := time.Now().Add(patience / 3); r.Op == faultsql.Commit && w == faultsql.Before && !hit.Load() && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		}
	}
	if err := l.run(t); err != nil {
		t.Errorf("the job did not complete: %v", err)
	}
	if !hit.Load() {
		t.Errorf("there was no %s %d to lose", op, n)
	}
	l.billedOnce(t)
}

// Each request to the database is lost once, before it was applied and after,
// with the connection: raise, read, begin, insert, commit and finish.
func TestLostAnswerOfDatabaseBillsOnce(t *testing.T) {
	for _, when := range []faultsql.When{faultsql.Before, faultsql.After} {
		t.Run(when.String(), func(t *testing.T) {
			t.Parallel()
			commits, more := 0, true
			for n := int64(1); more; n++ {
				t.Run(fmt.Sprint("request ", n), func(t *testing.T) {
					var r faultsql.Request
					if r, more = loseAtDatabase(t, n, when); r.Op == faultsql.Commit {
						commits++
					}
				})
			}
			if commits != lostChunks+2 { // raise and finish have one each
				t.Errorf("%d commits were lost %v they were applied, want %d", commits, when, lostChunks+2)
			}
		})
	}
}

// loseAtDatabase loses the n-th request and says which one that was, if there
// were as many.
func loseAtDatabase(t *testing.T, n int64, when faultsql.When) (faultsql.Request, bool) {
	var lost atomic.Pointer[faultsql.Request]
	drop := faultsql.Drop(n, when)
	// A lease that a busy machine lost asks for more than is counted here.
	l := &lossy{ttl: 3 * time.Second, hook: func(r faultsql.Request, w faultsql.When) error {
		err := drop(r, w)
		if err != nil {
			lost.Store(&r)
		}
		return err
	}}
	if err := l.run(t); err != nil {
		t.Errorf("%v %v: the job did not complete: %v", when, lost.Load(), err)
	}
	l.billedOnce(t)
	if r := lost.Load(); r != nil {
		return *r, true
	}
	return faultsql.Request{}, false
}

// When a commit's answer is lost and the database then cannot be asked, the
// worker does not guess: it repeats under the same claim, which settles it.
func TestUnknownCommitIsSettledNotGuessed(t *testing.T) {
	for _, when := range []faultsql.When{faultsql.Before, faultsql.After} {
		t.Run(when.String(), func(t *testing.T) {
			var commits atomic.Int64
			var until atomic.Int64
			l := &lossy{}
			l.hook = func(r faultsql.Request, w faultsql.When) error {
				if r.Op == faultsql.Commit && w == when && commits.Add(1) == 3 { // raise, chunk 1, chunk 2
					until.Store(int64(authority.BootClock{}.Now().Add(300 * time.Millisecond)))
				}
				if int64(authority.BootClock{}.Now()) < until.Load() {
					return fmt.Errorf("the database is out of reach: %w", faultsql.ErrLost)
				}
				return nil
			}
			if err := l.run(t); err != nil {
				t.Errorf("the job did not complete: %v", err)
			}
			if until.Load() == 0 {
				t.Error("no commit was lost")
			}
			l.billedOnce(t)
		})
	}
}
