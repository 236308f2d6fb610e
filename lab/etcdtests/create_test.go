package etcdtests

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestACancelledCreateThatComesLateTakesNothing: the caller gives up, another
// looks and finds the name free, and only then the create reaches the server.
func TestACancelledCreateThatComesLateTakesNothing(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for name, waiter := range map[string]bool{"a try": false, "a wait": true} {
		t.Run(name, func(t *testing.T) {
			w := w.on(t)
			a, b := w.party(), w.party()
			a.acquire(ask("warm", lasting)) // the session is there
			late := make(chan struct{})
			arrive := sync.OnceFunc(func() { close(late) })
			w.Cleanup(arrive)
			a.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/job/"), Kind: grpcfault.DelayRequest, Until: late})
			r := ask("job", lasting)
			if waiter {
				r = line("job", lasting)
			}
			ctx, cancel := context.WithCancel(w.long())
			told := make(chan error, 1)
			go func() { _, err := a.auth.Acquire(ctx, r); told <- err }()
			w.eventually("the create is under way", func() bool { return a.layer.Struck() == 1 })
			cancel()
			if err := <-told; err == nil || errors.Is(err, authority.ErrHeld) {
				t.Fatalf("a create without an answer returned %v", err)
			}
			g := b.acquire(ask("job", lasting))
			arrive()
			a.layer.Wait() // it has arrived
			w.eventually("only the holder's place is there", func() bool { return len(w.places("job")) == 1 })
			if s, err := b.auth.Inspect(w.long(), "job"); err != nil || s.Grant != g.Grant || s.Waiters != 0 {
				t.Errorf("the name after the late create: %+v, %v; want %v alone", s, err, g.Grant)
			}
			w.must(b.auth.Release(w.long(), g))
			w.noKeys("job")
		})
	}
}

// TestACreateWhoseAnswerWasLostIsFoundOrUndone: the server has created the place
// and nobody was told. A further try with the same nonce gets the grant; without
// one the place goes away by itself.
func TestACreateWhoseAnswerWasLostIsFoundOrUndone(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for name, again := range map[string]bool{"asked again": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			w := all.on(t)
			a := w.party()
			kept := a.acquire(ask("warm", lasting))
			a.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/job/"), Kind: grpcfault.LoseAnswer})
			r := ask("job", lasting) // in whose time it does not go by itself
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			first, err := a.auth.Acquire(ctx, r)
			if again && err != nil {
				if first, err = a.auth.Acquire(w.long(), r); err != nil || first.Nonce != r.Nonce {
					t.Fatalf("asked again: %+v, %v", first, err)
				}
				return
			}
			if err == nil {
				w.must(a.auth.Release(w.long(), first)) // it was found within the time that was given
			}
			for ctx := w.long(); len(w.places("job")) > 0; time.Sleep(50 * time.Millisecond) {
				if kept, err = a.auth.Renew(ctx, kept); err != nil {
					t.Fatal(err) // the shared lease has to live: the place must not go with it
				}
			}
		})
	}
}

// TestOneNameIsCreatedOnceInABatch: places that are created in one transaction
// share a revision, and two waiters of one name would both hold.
func TestOneNameIsCreatedOnceInABatch(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	p.acquire(ask("warm", lasting))
	// While the first is on its way, all others have to wait for the next batch.
	p.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/first/"), Kind: grpcfault.DelayAnswer, Delay: 500 * time.Millisecond})
	const waiters = 12
	first := p.background(line("first", lasting))
	w.eventually("the first is on its way", func() bool { return p.layer.Struck() == 1 })
	out := make(chan granted, waiters)
	held := make(chan struct{}, 1)
	ctx := w.long()
	for range waiters {
		go func() {
			g, err := p.serve(ctx, line("job", lasting))
			select {
			case held <- struct{}{}:
			default:
				err = errors.Join(err, errors.New("two hold at once"))
			}
			if err == nil {
				time.Sleep(5 * time.Millisecond) // long enough for another to be let in beside it
				<-held
				err = p.auth.Release(ctx, g)
			}
			out <- granted{g, err, 0}
		}()
	}
	var tokens []int64
	for range waiters {
		tokens = append(tokens, int64(w.next(out).Token))
	}
	w.next(first)
	slices.Sort(tokens)
	if len(slices.Compact(slices.Clone(tokens))) != waiters {
		t.Errorf("a token was granted twice: %v", tokens)
	}
	w.noKeys("job")
}

// TestPlacesOfOneNameNeverShareARevision looks at the line itself.
func TestPlacesOfOneNameNeverShareARevision(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	holder := p.acquire(ask("job", lasting))
	p.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/job/"), Kind: grpcfault.DelayAnswer, Delay: 300 * time.Millisecond})
	const waiters = 20
	var outs []<-chan granted
	for range waiters {
		outs = append(outs, p.background(line("job", lasting)))
	}
	w.eventually("all stand in line", func() bool { return len(w.places("job")) == waiters+1 })
	seen := map[int64]string{}
	for _, at := range w.places("job") {
		if other, ok := seen[at.created]; ok {
			t.Errorf("%s and %s were both created at %d", other, at.key, at.created)
		}
		seen[at.created] = at.key
	}
	w.must(p.auth.Release(w.long(), holder))
	for left := outs; len(left) > 0; {
		var g authority.Grant
		for i, out := range left {
			select {
			case one := <-out:
				w.must(one.err)
				g, left = one.Grant, slices.Delete(left, i, i+1)
			default:
				continue
			}
			break
		}
		if g.Name == "" {
			time.Sleep(time.Millisecond)
			continue
		}
		w.must(p.auth.Release(w.long(), g))
	}
}

// TestAWaiterWhoIsPassedTakesALaterToken: its place (20) is older than what was
// granted past it (30). It must not come with 20 to a fence that has seen 30.
func TestAWaiterWhoIsPassedTakesALaterToken(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	waiter := b.stand(line("job", lasting))
	line := w.places("job")

	// The heir: the holder's own place passes to another lease, with a floor.
	value, err := w.raw.Get(w.long(), line[0].key)
	w.must(err)
	lease, err := w.raw.Grant(w.long(), int64(lasting/time.Second))
	w.must(err)
	heir, err := w.raw.Txn(w.long()).Then(
		clientv3.OpPut(w.prefix+"/floor/job", "heir"),
		clientv3.OpPut(line[0].key, string(value.Kvs[0].Value), clientv3.WithLease(lease.ID)),
	).Commit()
	w.must(err)
	if heir.Header.Revision <= line[1].created {
		t.Fatalf("the heir's token %d is not after the waiter's place %d", heir.Header.Revision, line[1].created)
	}
	if _, err := a.auth.Renew(w.long(), first); !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("the old grant was renewed after it was handed over: %v", err)
	}
	select {
	case g := <-waiter:
		t.Fatalf("the waiter was granted %+v beside the heir", g)
	default:
	}
	_, err = w.raw.Revoke(w.long(), lease.ID)
	w.must(err)
	g := w.next(waiter)
	if int64(g.Token) <= heir.Header.Revision {
		t.Errorf("the waiter came with %d after the heir's %d", g.Token, heir.Header.Revision)
	}
	if _, err := b.auth.Renew(w.long(), g); err != nil {
		t.Errorf("its grant cannot be renewed: %v", err)
	}
	w.must(b.auth.Release(w.long(), g))
	w.noKeys("job")
}

// TestTokensGrowOverABreakGlass: the waiter's place is older than the floor that
// the forced release has raised.
func TestTokensGrowOverABreakGlass(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	waiter := b.stand(line("job", lasting))
	broken := w.breakGlass("job")
	g := w.next(waiter)
	if int64(g.Token) <= broken {
		t.Errorf("the waiter came with %d, the floor was %d", g.Token, broken)
	}
	if err := a.auth.Release(w.long(), first); !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("the release of what was taken away: %v", err)
	}
	if len(w.places("job")) != 1 {
		t.Error("the late release took the next holder's place with it")
	}
	next := b.background(line("job", lasting))
	w.must(b.auth.Release(w.long(), g))
	if g2 := w.next(next); g2.Token <= g.Token {
		t.Errorf("token %d after %d", g2.Token, g.Token)
	}
}
