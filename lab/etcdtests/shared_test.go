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
		"the delete is lost":        {Kind: grpcfault.LoseRequest, Broken: true},
		"the delete's answer, too":  {Kind: grpcfault.LoseAnswer, Broken: true},
		"nobody answers the delete": {Kind: grpcfault.LoseRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := all.on(t)
			p := w.party()
			const length = 6 * time.Second
			sent := now()
			p.acquire(ask("left", length))
			kept := p.acquire(ask("kept", length))
			if fault != nil {
				fault.Method, fault.Only = txn, deletes("/lock/left/")
				p.layer.Arm(*fault)
			}
			for ctx := w.long(); len(w.places("left")) > 0; time.Sleep(20 * time.Millisecond) {
				var err error
				if kept, err = p.auth.Renew(ctx, kept); err != nil {
					t.Fatal(err)
				}
			}
			if took := now().Sub(sent); took < length {
				t.Errorf("a lock of %v went after %v", length, took)
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
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	c := a.stint(stint.Options{TTL: 6 * time.Second, BeatWithin: time.Second})
	whole, err := c.With(stint.Options{TTL: 6 * time.Second})
	w.must(err)
	neighbour := w.lease(whole, "neighbour")
	silent := w.lease(c, "silent")
	silent.Beat()
	w.next(b.rival(line("silent", lasting), silent))
	if err := silent.Err(); !errors.Is(err, stint.ErrWorkStopped) {
		t.Errorf("the cause: %v", err)
	}
	w.must(neighbour.Err())
}

// TestAContextThatIsIgnoredDelaysTheNextByItsLengthAtMost: the work goes on
// after its context has ended; the key stays until the lock's own time is over,
// and goes then although the neighbours live.
func TestAContextThatIsIgnoredDelaysTheNextByItsLengthAtMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	c := a.stint(stint.Options{TTL: 6 * time.Second})
	neighbour := w.lease(c, "neighbour")
	ctx, cancel := context.WithCancel(t.Context())
	l, err := c.Acquire(ctx, "ignored")
	w.must(err)
	stop := l.Status().Stop
	cancel()
	g := <-b.background(line("ignored", lasting))
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
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	const length = 5 * time.Second
	c := p.stint(stint.Options{TTL: length})
	one := w.lease(c, "one")
	two := w.lease(c, "two")
	old := w.places("one")[0]
	beats, err := w.raw.KeepAlive(t.Context(), clientv3.LeaseID(old.lease)) // in the new leader's place
	w.must(err)
	<-beats
	go func() {
		for range beats {
		}
	}()
	p.cut()
	<-one.Context().Done()
	<-two.Context().Done()
	time.Sleep(length) // the lock's own time passes, too
	if len(w.places("one")) != 1 {
		t.Fatal("the old key is gone: this test has lost its point")
	}
	p.open()
	again := w.lease(c, "one")
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
	g := p.acquire(ask("a", 20*time.Second))
	_, err := w.raw.Revoke(w.long(), clientv3.LeaseID(w.places("a")[0].lease))
	w.must(err)
	time.Sleep(time.Second) // no answer of the acquire may serve for the renewal
	if _, err := p.auth.Renew(w.long(), g); !errors.Is(err, authority.ErrNotHeld) {
		t.Errorf("got %v", err)
	}
	if g2 := p.acquire(ask("a", 20*time.Second)); g2.Token <= g.Token {
		t.Errorf("token %d after %d", g2.Token, g.Token)
	}
}
