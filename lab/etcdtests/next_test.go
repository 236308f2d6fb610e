package etcdtests

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pair is a holder and a waiter of one client, whose watch tells nothing until
// news is called: neither this one nor those that its client begins anew when it
// finds it silent. The next may be told by nothing else than the release's answer,
// so that is waited for, however long it takes.
type pair struct {
	*party
	first  authority.Grant
	second authority.Request
	own    place // of the second
	waiter <-chan granted
	news   func()
}

func newPair(w *world) *pair {
	h := &pair{party: w.partyOf(unhurried), second: line("job", lasting)}
	h.first = h.acquire(ask("job", lasting))
	h.waiter = h.stand(h.second)
	h.own = w.places("job")[1]
	silent := make(chan struct{})
	h.news = sync.OnceFunc(func() { close(silent) })
	w.Cleanup(h.news) // a test that has failed before
	for range 100 {   // of which each watch takes one
		h.layer.Arm(grpcfault.Fault{Method: "Watch/Watch", Kind: grpcfault.BeforeAnswer, Do: func() { <-silent }})
	}
	return h
}

// TestAReleaseTellsTheNextOfItsOwnClientAtOnce: the answer to the delete is enough.
func TestAReleaseTellsTheNextOfItsOwnClientAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	h := newPair(w)
	w.must(h.auth.Release(w.long(), h.first))
	g := w.next(h.waiter)
	if g.Token != fence.Token(h.own.created) {
		t.Errorf("granted with token %d, its place is of revision %d", g.Token, h.own.created)
	}
	h.news()
	if _, err := h.auth.Renew(w.long(), g); err != nil {
		t.Error(err)
	}
	// The news of the first one's release come now, and must not count again.
	w.must(h.auth.Release(w.long(), g))
	w.noKeys("job")
}

// TestAReleaseTellsNobodyWhosePlaceHasGone: the next one's place was removed by
// hand, and the watch has not told it yet.
func TestAReleaseTellsNobodyWhosePlaceHasGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	h := newPair(w)
	w.must(w.txn(clientv3.OpDelete(h.own.key)))
	w.must(h.auth.Release(w.long(), h.first))
	select {
	case g := <-h.waiter:
		t.Fatalf("granted %+v, although its place had gone before the release", g)
	case <-time.After(500 * time.Millisecond): // a grant by the answer would have come by now
	}
	h.news()
	g := w.next(h.waiter)
	if now := w.places("job"); len(now) != 1 || g.Token != fence.Token(now[0].created) || now[0].created <= h.own.created {
		t.Errorf("granted with token %d; in line is %+v, and was %+v", g.Token, now, h.own)
	}
}

// TestAReleaseTellsTheNextOfAFloorToo: it was raised by hand, and the watch has
// not told it yet.
func TestAReleaseTellsTheNextOfAFloorToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	h := newPair(w)
	floor, err := w.raw.Put(w.long(), w.prefix+"/floor/job", "raised by hand")
	w.must(err)
	w.must(h.auth.Release(w.long(), h.first))
	g := w.next(h.waiter)
	h.news()
	if g.Token <= fence.Token(floor.Header.Revision) {
		t.Errorf("granted with token %d, the floor is %d", g.Token, floor.Header.Revision)
	}
}

// TestAReleaseTellsOnlyWhoIsNext: somebody else's place lies between.
func TestAReleaseTellsOnlyWhoIsNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	between := b.stand(line("job", lasting))
	waiter := a.stand(line("job", lasting))
	w.must(a.auth.Release(w.long(), first))
	g := w.next(between)
	select {
	case got := <-waiter:
		t.Fatalf("granted %+v beside %+v", got, g)
	case <-time.After(300 * time.Millisecond):
	}
	w.must(b.auth.Release(w.long(), g))
	w.must(a.auth.Release(w.long(), w.next(waiter)))
	w.noKeys("job")
}

// TestAReleaseThatSomebodyWaitsForGoesBesideATxnUnderWay: a create of the same
// client does not leave before the next is granted. Where the release itself is
// lost, it is sent again behind that create.
func TestAReleaseThatSomebodyWaitsForGoesBesideATxnUnderWay(t *testing.T) {
	t.Parallel()
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for _, kind := range []grpcfault.Kind{grpcfault.BeforeAnswer, grpcfault.LoseAnswer, grpcfault.RepeatRequest, grpcfault.LoseRequest} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			w := all.on(t)
			p := w.party()
			first := p.acquire(ask("job", lasting))
			second := line("job", lasting)
			if _, err := p.auth.Acquire(w.long(), second); !errors.Is(err, authority.ErrHeld) {
				t.Fatal(err)
			}
			turn := make(chan error, 1)
			go func() { turn <- p.auth.Wait(w.long(), second) }() // asks nobody
			goes := make(chan struct{})
			p.layer.Arm(
				grpcfault.Fault{Method: txn, Kind: grpcfault.BeforeRequest, Only: puts("/lock/other/"), Do: func() { <-goes }},
				grpcfault.Fault{Method: txn, Kind: kind, Only: deletes("/lock/job/"), Broken: true, Do: func() {}})
			done := make(chan struct{})
			go func() {
				defer close(done)
				g, err := p.auth.Acquire(w.long(), ask("other", lasting))
				if err != nil || p.auth.Release(w.long(), g) != nil {
					t.Errorf("the create under way: %+v, %v", g, err)
				}
			}()
			w.eventually("the create is under way", func() bool { return p.layer.Struck() == 1 })
			released := make(chan error, 1)
			go func() { released <- p.auth.Release(w.long(), first) }()
			w.eventually("the release is sent", func() bool { return p.layer.Struck() == 2 })
			if kind == grpcfault.LoseRequest {
				close(goes)
			}
			w.must(<-released)
			w.must(<-turn)
			g := p.acquire(second)
			if kind != grpcfault.LoseRequest {
				close(goes)
			}
			<-done
			w.must(p.auth.Release(w.long(), g))
			w.noKeys("job")
			w.noKeys("other")
		})
	}
}
