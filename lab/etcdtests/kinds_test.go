package etcdtests

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const revoke = "Lease/LeaseRevoke"

// lifeKinds are the kinds of requests that a life of one name sends, each of
// which is struck in each way.
var lifeKinds = []string{"Maintenance/Status", "Auth/AuthStatus", "Lease/LeaseGrant", txn, keepAlive, leaseKeys, "Watch/Watch"}

// ways are what may happen to the first request of a kind, or to its answer.
// Answers come twice in streams alone.
func ways(method string) []grpcfault.Fault {
	all := []grpcfault.Fault{
		{Kind: grpcfault.LoseRequest},
		{Kind: grpcfault.LoseRequest, Broken: true},
		{Kind: grpcfault.LoseAnswer},
		{Kind: grpcfault.LoseAnswer, Broken: true},
		{Kind: grpcfault.DelayRequest, Delay: 1500 * time.Millisecond},
		{Kind: grpcfault.DelayAnswer, Delay: 1500 * time.Millisecond},
		{Kind: grpcfault.RepeatRequest},
		{Kind: grpcfault.RetryRequest},
	}
	if method == keepAlive || method == "Watch/Watch" {
		all = append(all, grpcfault.Fault{Kind: grpcfault.RepeatAnswer})
	}
	for i := range all {
		all[i].Method = method
	}
	return all
}

// TestEachKindOfRequestIsStruckInEachWay: what the life of
// TestEveryRequestAndAnswerOnceLostLateAndRepeated strikes by numbers, by kinds.
// A kind that a life sends and that is not in the list is a failure: nobody
// would have struck it on purpose.
func TestEachKindOfRequestIsStruckInEachWay(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	var mu sync.Mutex
	sent := map[string]bool{}
	for _, method := range lifeKinds {
		for _, fault := range ways(method) {
			// On a stream that goes on, etcd's client asks for no watch after one that
			// was not answered.
			if method == "Watch/Watch" && !fault.Broken && (fault.Kind == grpcfault.LoseRequest || fault.Kind == grpcfault.LoseAnswer) {
				continue
			}
			t.Run(fmt.Sprintf("%v %v", fault, fault.Delay), func(t *testing.T) {
				t.Parallel()
				w := all.on(t)
				l := life{world: w, struck: w.party(fault), free: w.party(), retried: fault.Kind == grpcfault.RetryRequest}
				l.run()
				if l.struck.layer.Struck() != 1 {
					t.Errorf("a life has only these requests: %v", l.struck.layer.Requests())
				}
				mu.Lock()
				defer mu.Unlock()
				for _, m := range l.struck.layer.Requests() {
					sent[m] = true
				}
			})
		}
	}
	t.Cleanup(func() { // after the parallel lives
		for m := range sent {
			// A session that was given up is revoked; see the test of Close.
			if m != revoke && m != "KV/Range" && !slices.Contains(lifeKinds, m) {
				t.Errorf("a life sends %s, which nobody strikes", m)
			}
		}
	})
}

// TestARoundOfManyLocksIsStruckInEachWay: many locks are proven by other requests
// than few.
func TestARoundOfManyLocksIsStruckInEachWay(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for _, method := range []string{keepAlive, leaseKeys, "KV/Range"} {
		for _, fault := range ways(method) {
			t.Run(fmt.Sprintf("%v %v", fault, fault.Delay), func(t *testing.T) {
				t.Parallel()
				w := all.on(t)
				p := w.party()
				o, err := calm.Effective()
				w.must(err)
				leases := w.hold(p.stint(o), 61)
				p.layer.Arm(fault)
				w.eventually("a message is struck", func() bool { return p.layer.Struck() == 1 })
				renewed := now().Add(o.TTL - o.Margin) // the stop time of what is sent from here on
				w.eventually("all are renewed after it", func() bool { return w.allHeld(leases, renewed) })
				w.sameTokens(leases)
			})
		}
	}
}

// TestACloseIsStruckInEachWay: the revocation of a lease on which nothing is held
// is lost, late or repeated. Close ends soon all the same, what is held stays,
// and the lease goes: at once, when the request comes, or when it has run out.
func TestACloseIsStruckInEachWay(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for _, fault := range ways(revoke) {
		t.Run(fmt.Sprintf("%v %v", fault, fault.Delay), func(t *testing.T) {
			t.Parallel()
			w := all.on(t)
			p := w.party()
			kept := p.acquire(ask("kept", lasting))
			g := p.acquire(ask("given", 6*time.Second))
			lease := clientv3.LeaseID(w.places("given")[0].lease)
			w.must(p.auth.Release(w.long(), g))
			p.layer.Arm(fault)
			late := w.stopwatch()
			began := now()
			w.must(p.auth.Close())
			// It waits 2 s for etcd, whatever it has to say.
			if took := now().Sub(began); took > 5*time.Second+3*late() {
				t.Errorf("Close took %v", took)
			}
			if p.layer.Struck() != 1 {
				t.Error("nothing was struck")
			}
			w.eventually("the lease is gone", func() bool {
				left, err := w.raw.TimeToLive(w.long(), lease)
				w.must(err)
				return left.TTL < 0
			})
			other := w.party()
			if s, err := other.auth.Inspect(w.long(), "kept"); err != nil || s.Grant != kept.Grant {
				t.Errorf("what is held: %+v, %v; want %v", s, err, kept.Grant)
			}
			if next := other.acquire(ask("given", 6*time.Second)); next.Token <= g.Token {
				t.Errorf("token %d after %d", next.Token, g.Token)
			}
		})
	}
}
