package etcdtests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestALockThatIsNotRenewedGoesThoughItsLeaseLives: each lock has a lease of its
// own inside the shared one. Its key goes after its own length and not before,
// also if the first delete is lost on the way.
func TestALockThatIsNotRenewedGoesThoughItsLeaseLives(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for name, fault := range map[string]*grpcfault.Fault{
		"":                          nil,
		"the delete is lost":        {Method: txn, Kind: grpcfault.LoseRequest, Broken: true},
		"the delete's answer, too":  {Method: txn, Kind: grpcfault.LoseAnswer, Broken: true},
		"nobody answers the delete": {Method: txn, Kind: grpcfault.LoseRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := all.on(t)
			p := w.party()
			sent := now()
			p.acquire(ask("left", 2*time.Second))
			kept := p.acquire(ask("kept", 2*time.Second))
			if fault != nil {
				p.layer.Arm(*fault)
			}
			for ctx := w.long(); len(w.places("left")) > 0; time.Sleep(20 * time.Millisecond) {
				var err error
				if kept, err = p.auth.Renew(ctx, kept); err != nil {
					t.Fatal(err)
				}
			}
			if took := now().Sub(sent); took < 2*time.Second {
				t.Errorf("a lock of 2 s went after %v", took)
			}
			if fault != nil && p.layer.Struck() != 1 {
				t.Error("nothing was lost")
			}
			if len(w.places("kept")) != 1 {
				t.Error("the neighbour's key is gone")
			}
		})
	}
}

// TestWorkThatStopsBeatingLosesItsNameAlone: the neighbours of a lock whose work
// gave no sign of life keep the shared lease alive.
func TestWorkThatStopsBeatingLosesItsNameAlone(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	c := a.stint(stint.Options{TTL: 2 * time.Second, BeatWithin: time.Second})
	whole, err := c.With(stint.Options{TTL: 2 * time.Second})
	w.must(err)
	neighbour, err := whole.TryAcquire(w.long(), "neighbour")
	w.must(err)
	silent, err := c.TryAcquire(w.long(), "silent")
	w.must(err)
	silent.Beat()
	rival := b.background(line("silent", 2*time.Second))
	<-silent.Context().Done()
	stopped := now()
	g := <-rival
	w.must(g.err)
	if g.at < stopped {
		t.Errorf("the rival was granted %v before the lease was over", stopped.Sub(g.at))
	}
	if err := silent.Err(); !errors.Is(err, stint.ErrWorkStopped) {
		t.Errorf("the cause: %v", err)
	}
	w.must(neighbour.Err())
}

// TestAContextThatIsIgnoredDelaysTheNextByItsLengthAtMost: the work goes on
// after its context has ended; the key stays until the lock's own time is over,
// and goes then although the neighbours live.
func TestAContextThatIsIgnoredDelaysTheNextByItsLengthAtMost(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	c := a.stint(stint.Options{TTL: 2 * time.Second})
	neighbour, err := c.TryAcquire(w.long(), "neighbour")
	w.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	l, err := c.TryAcquire(ctx, "ignored")
	w.must(err)
	stop := l.Status().Stop
	cancel()
	g := <-b.background(line("ignored", 2*time.Second))
	w.must(g.err)
	if g.at < stop {
		t.Errorf("the rival was granted %v before the stop time of work that has not returned", stop.Sub(g.at))
	}
	w.must(neighbour.Err())
}

// TestALostLeaseIsNeverTakenUpAgain: a client that was cut off for longer than
// its lease finds its old keys still there, because a new leader had begun all
// leases anew. They are not its any more.
func TestALostLeaseIsNeverTakenUpAgain(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	c := p.stint(stint.Options{TTL: 2 * time.Second})
	one, err := c.TryAcquire(w.long(), "one")
	w.must(err)
	two, err := c.TryAcquire(w.long(), "two")
	w.must(err)
	old := w.places("one")[0]
	beats, err := w.raw.KeepAlive(t.Context(), clientv3.LeaseID(old.lease)) // in the new leader's place
	w.must(err)
	go func() {
		for range beats {
		}
	}()
	p.cut()
	<-one.Context().Done()
	<-two.Context().Done()
	time.Sleep(2 * time.Second) // the lock's own time passes, too
	if len(w.places("one")) != 1 {
		t.Fatal("the old key is gone: this test has lost its point")
	}
	p.open()
	again, err := c.Acquire(w.long(), "one")
	w.must(err)
	if again.Token() <= one.Token() || one.Err() == nil {
		t.Errorf("token %d after %d; the old lease says %v", again.Token(), one.Token(), one.Err())
	}
	if now := w.places("one"); len(now) != 1 || now[0].lease == old.lease {
		t.Errorf("the new place %+v lies on the lost lease %x", now, old.lease)
	}
	w.noKeys("two")
	w.eventually("the lost lease is revoked", func() bool {
		l, err := w.raw.TimeToLive(w.long(), clientv3.LeaseID(old.lease))
		w.must(err)
		return l.TTL < 0
	})
	w.must(again.Err())
}

// TestARenewalAfterALossIsDefinite: what was lost is told at once, and not asked
// for in vain.
func TestARenewalAfterALossIsDefinite(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	g := p.acquire(ask("a", 2*time.Second))
	_, err := w.raw.Revoke(w.long(), clientv3.LeaseID(w.places("a")[0].lease))
	w.must(err)
	time.Sleep(time.Second) // no answer of the acquire may serve for the renewal
	if _, err := p.auth.Renew(w.long(), g); !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("got %v", err)
	}
	if g2 := p.acquire(ask("a", 2*time.Second)); g2.Token <= g.Token {
		t.Errorf("token %d after %d", g2.Token, g.Token)
	}
}
