package etcdtests

import (
	"errors"
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
// lives and its keep-alives are answered.
func TestAKeepAliveProvesTheLeaseAndNotTheLock(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{})
	for name, moment := range map[string]grpcfault.Fault{
		"while the keep-alive is sent":      {Method: keepAlive, Kind: grpcfault.BeforeRequest},
		"before the keep-alive is answered": {Method: keepAlive, Kind: grpcfault.BeforeAnswer},
		"before the keys are asked for":     {Method: leaseKeys, Kind: grpcfault.BeforeRequest},
		"while the keys are on their way":   {Method: leaseKeys, Kind: grpcfault.BeforeAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			w := all.on(t)
			p := w.party()
			broken, whole := p.acquire(ask("broken", 5*time.Second)), p.acquire(ask("whole", 5*time.Second))
			if l := w.places("broken")[0].lease; l != w.places("whole")[0].lease {
				t.Fatal("the two do not share a lease: this test has lost its point")
			}
			var gone authority.Instant // when its key was
			moment.Do = func() { w.breakGlass("broken"); gone = now() }
			p.layer.Arm(moment)
			for broken.Name != "" {
				time.Sleep(time.Second) // no answer from before may serve for the renewal
				asked := now()
				got := p.auth.RenewAll(w.long(), []authority.Grant{broken, whole})
				if got[1].Err != nil || got[1].Grant.Grant != whole.Grant {
					t.Fatalf("its neighbour was not renewed: %+v", got[1])
				}
				switch {
				case errors.Is(got[0].Err, authority.ErrNotHeld):
					broken.Name = ""
				case got[0].Err != nil, asked > gone || got[0].Grant.From > gone:
					t.Fatalf("asked at %v, the broken one, gone at %v, was renewed from %v: %v", asked, gone, got[0].Grant.From, got[0].Err)
				default: // its key was seen after it was asked for, and went then
					whole = got[1].Grant
				}
			}
			if p.layer.Struck() != 1 {
				t.Error("the moment never came")
			}
		})
	}
}

// TestABrokenLockEndsBesideALivingKeepAlive: the same through a Client, whose
// other leases go on.
func TestABrokenLockEndsBesideALivingKeepAlive(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{})
	a, b := w.party(), w.party()
	c := a.stint(stint.Options{TTL: 3 * time.Second})
	broken, err := c.TryAcquire(w.long(), "broken")
	w.must(err)
	whole, err := c.TryAcquire(w.long(), "whole")
	w.must(err)
	w.breakGlass("broken")
	known := broken.Status().Stop.Add(100 * time.Millisecond) // of a renewal under way
	g := b.acquire(ask("broken", 3*time.Second))
	<-broken.Context().Done()
	if at := now(); at > known.Add(time.Second) && broken.Status().Renewals > 1 {
		t.Errorf("the broken lease went on until %v, its stop time was %v", at, known)
	}
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
	w := newWorld(t, 1, etcdcluster.Options{})
	p := w.party()
	g := p.acquire(ask("mine", 3*time.Second))
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
	w := newWorld(t, 1, etcdcluster.Options{})
	p := w.party()
	var grants []authority.Grant
	for _, name := range []string{"a", "b", "c", "d"} {
		grants = append(grants, p.acquire(ask(name, 5*time.Second)))
	}
	time.Sleep(time.Second) // no answer of the acquires may serve for the renewal
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
