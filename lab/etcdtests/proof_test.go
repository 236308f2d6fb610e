package etcdtests

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	keepAlive = "Lease/LeaseKeepAlive"
	leaseKeys = "Lease/LeaseTimeToLive"
	txn       = "KV/Txn"
)

// TestAKeepAliveProvesTheLeaseAndNotTheLock: the key goes while the shared lease
// lives and its keep-alives are answered. A few locks are proven by reading
// their keys, many by the list of the lease's.
func TestAKeepAliveProvesTheLeaseAndNotTheLock(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for keys, others := range map[string]int{txn: 0, leaseKeys: 60} {
		for name, moment := range map[string]grpcfault.Fault{
			"while the keep-alive is sent":      {Method: keepAlive, Kind: grpcfault.BeforeRequest},
			"before the keep-alive is answered": {Method: keepAlive, Kind: grpcfault.BeforeAnswer},
			"before the keys are asked for":     {Method: keys, Kind: grpcfault.BeforeRequest},
			"while the keys are on their way":   {Method: keys, Kind: grpcfault.BeforeAnswer},
		} {
			t.Run(fmt.Sprintf("%s, beside %d others", name, others), func(t *testing.T) {
				t.Parallel()
				all.on(t).breaksAt(moment, others)
			})
		}
	}
}

// breaksAt takes one of two locks away at a moment of a renewal.
func (w *world) breaksAt(moment grpcfault.Fault, others int) {
	p := w.party()
	var all sync.WaitGroup
	for i := range others {
		r := ask(fmt.Sprint("other", i), lasting)
		all.Go(func() {
			if _, err := p.auth.Acquire(w.Context(), r); err != nil {
				w.Errorf("Acquire %+v: %v", r, err)
			}
		})
	}
	all.Wait()
	broken, whole := p.acquire(ask("broken", lasting)), p.acquire(ask("whole", lasting))
	if l := w.places("broken")[0].lease; l != w.places("whole")[0].lease {
		w.Fatal("the two do not share a lease: this test has lost its point")
	}
	var at atomic.Int64 // when its key was gone
	moment.Do = func() { w.breakGlass("broken"); at.Store(int64(now())) }
	p.layer.Arm(moment)
	for broken.Name != "" {
		got := p.auth.RenewAll(w.long(), []authority.Grant{broken, whole})
		gone := authority.Instant(at.Load())
		if got[1].Err != nil || got[1].Grant.Grant != whole.Grant {
			w.Fatalf("its neighbour was not renewed: %+v", got[1])
		}
		switch {
		case errors.Is(got[0].Err, authority.ErrNotHeld):
			broken.Name = ""
		case got[0].Err != nil, gone != 0 && got[0].Grant.From > gone:
			w.Fatalf("the broken one, gone at %v, was renewed from %v: %v", gone, got[0].Grant.From, got[0].Err)
		default:
			// Its key was seen after that proof was asked for, and went then, or later.
			// Who asks next may get such a proof still, of another attempt that was made
			// beside a slow one; it says from when it is.
			broken, whole = got[0].Grant, got[1].Grant
			time.Sleep(200 * time.Millisecond)
		}
	}
	if p.layer.Struck() != 1 {
		w.Error("the moment never came")
	}
}

// TestABrokenLockEndsBesideALivingKeepAlive: the same through a Client, whose
// other leases go on.
func TestABrokenLockEndsBesideALivingKeepAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	c := a.stint(calm)
	broken := w.lease(c, "broken")
	whole := w.lease(c, "whole")
	holds := broken.Context()
	w.breakGlass("broken")
	g := b.acquire(ask("broken", lasting))
	<-holds.Done() // by the next renewal, long before its stop time: the cause below says so
	if err := broken.Err(); !errors.Is(err, stint.ErrTakenOver) {
		t.Errorf("the cause: %v", err)
	}
	if g.Token <= broken.Token() {
		t.Errorf("token %d after %d", g.Token, broken.Token())
	}
	n := whole.Status().Renewals
	w.eventually("the neighbour is renewed", func() bool { return whole.Status().Renewals > n+3 || whole.Err() != nil })
	w.must(whole.Err())
}

// TestAnUnknownKeyOnTheSharedLeaseIsRemoved: a create that nobody remembers must
// not block its name for as long as the lease lives.
func TestAnUnknownKeyOnTheSharedLeaseIsRemoved(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	g := p.acquire(ask("mine", lasting))
	mine := w.places("mine")[0]
	value, err := w.raw.Get(w.long(), mine.key)
	w.must(err)
	w.must(w.txn(clientv3.OpPut(w.prefix+"/lock/other/n-unknown", string(value.Kvs[0].Value), clientv3.WithLease(clientv3.LeaseID(mine.lease)))))
	for ctx := w.long(); len(w.places("other")) > 0; time.Sleep(100 * time.Millisecond) {
		if g, err = p.auth.Renew(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.places("mine")) != 1 {
		t.Error("its own key is gone, too")
	}
}

// TestOneKeepAliveIsOutstanding: its answers carry no request's number, so two
// at once could not be told apart.
func TestOneKeepAliveIsOutstanding(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.partyOf(unhurried) // else a second one is sent beside one that is slow
	var grants []authority.Grant
	for _, name := range []string{"a", "b", "c", "d"} {
		grants = append(grants, p.acquire(ask(name, lasting)))
	}
	most := 0
	before := p.requests("LeaseKeepAlive")
	p.layer.Arm(grpcfault.Fault{Method: keepAlive, Kind: grpcfault.BeforeAnswer, Do: func() {
		for end := now().Add(300 * time.Millisecond); now() < end; time.Sleep(time.Millisecond) {
			most = max(most, p.requests("LeaseKeepAlive")-before)
		}
	}})
	done := make(chan error, len(grants))
	ctx := w.long()
	for _, g := range grants {
		go func() { _, err := p.auth.Renew(ctx, g); done <- err }()
	}
	for range grants {
		w.must(<-done)
	}
	if most != 1 || p.layer.Struck() != 1 {
		t.Errorf("while one keep-alive was on its way, %d were (%d held up)", most, p.layer.Struck())
	}
}

// TestAnAnswerThatComesTwiceProvesNothingTwice: a keep-alive's answer comes
// twice, and the next keep-alive is lost. The second copy must not be taken for
// its answer.
func TestAnAnswerThatComesTwiceProvesNothingTwice(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	const length = 20 * time.Second
	g := p.acquire(ask("job", length))
	id := clientv3.LeaseID(w.places("job")[0].lease)
	p.layer.Arm(grpcfault.Fault{Method: keepAlive, Kind: grpcfault.RepeatAnswer})
	g, err := p.auth.Renew(w.long(), g)
	w.must(err)
	time.Sleep(2500 * time.Millisecond) // by which etcd, that counts whole seconds, gives less then
	p.layer.Arm(grpcfault.Fault{Method: keepAlive, Kind: grpcfault.LoseRequest})
	next, err := p.auth.Renew(w.within(2*time.Second), g)
	if err != nil {
		if errors.Is(err, authority.ErrNotHeld) {
			t.Error(err)
		}
		return // it did not believe it
	}
	left, err := w.raw.TimeToLive(w.long(), id)
	w.must(err)
	// What the holder believes must be no more than what etcd still gives.
	if believed := next.From.Add(length).Sub(now()); believed > time.Duration(left.TTL+1)*time.Second {
		t.Errorf("the holder counts on another %v, etcd lets go in %d s", believed, left.TTL)
	}
}
