package etcdtests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
)

// struckRequests is how many of a life's requests are struck, each by itself.
const struckRequests = 14

// strikes are all faults, each in a life of its own.
func strikes() []grpcfault.Fault {
	var all []grpcfault.Fault
	each := func(n int, f grpcfault.Fault) {
		for f.N = 1; f.N <= n; f.N++ {
			all = append(all, f)
		}
	}
	for _, f := range []grpcfault.Fault{
		{Kind: grpcfault.LoseRequest, Broken: true},
		{Kind: grpcfault.LoseAnswer, Broken: true},
		{Kind: grpcfault.DelayRequest, Delay: 300 * time.Millisecond},
		{Kind: grpcfault.DelayRequest, Delay: 1500 * time.Millisecond},
		{Kind: grpcfault.DelayAnswer, Delay: 300 * time.Millisecond},
		{Kind: grpcfault.DelayAnswer, Delay: 1500 * time.Millisecond},
		{Kind: grpcfault.RepeatRequest},
		{Kind: grpcfault.RetryRequest},
		{Kind: grpcfault.RepeatAnswer},
	} {
		each(struckRequests, f)
	}
	// Lost without a word: the caller only waits.
	for method, n := range map[string]int{txn: 6, keepAlive: 1, leaseKeys: 1, "Lease/LeaseGrant": 1, "Maintenance/Status": 1} {
		each(n, grpcfault.Fault{Method: method, Kind: grpcfault.LoseRequest})
		each(n, grpcfault.Fault{Method: method, Kind: grpcfault.LoseAnswer})
	}
	return all
}

// TestEveryRequestAndAnswerOnceLostLateAndRepeated: a whole life of two leases,
// with one message lost, late or repeated. Whatever it is: the acquires succeed,
// tokens grow, nobody holds beside another, and nothing is left.
func TestEveryRequestAndAnswerOnceLostLateAndRepeated(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for _, fault := range strikes() {
		t.Run(fmt.Sprintf("%v %v", fault, fault.Delay), func(t *testing.T) {
			t.Parallel()
			w := all.on(t)
			l := life{world: w, struck: w.party(fault), free: w.party(), retried: fault.Kind == grpcfault.RetryRequest}
			l.run()
			if l.struck.layer.Struck() != 1 {
				t.Errorf("a life has only these requests: %v", l.struck.layer.Requests())
			}
		})
	}
}

// life is what a struck and a free client do with one name.
type life struct {
	*world
	struck, free *party
	retried      bool // the fault is that a request comes twice and its first answer is lost
	last         fence.Token
}

func (l *life) run() {
	o := stint.Options{TTL: 20 * time.Second, Renew: time.Second}
	a, b := l.struck.stint(o), l.free.stint(o)

	first := l.acquire(a)
	if second, err := b.TryAcquire(l.long(), "job"); err == nil {
		l.Errorf("beside the first, %d, another was granted: %d", first.Token(), second.Token())
	}
	waiting := l.line(b)
	l.eventually("the other stands in line", func() bool { return len(l.places("job")) == 2 })
	n := first.Status().Renewals
	l.eventually("a renewal", func() bool { return first.Status().Renewals > n || first.Err() != nil })
	l.must(first.Err())
	l.release(first)
	second := l.got(<-waiting)

	waiting = l.line(a) // the struck one waits
	l.eventually("the struck one stands in line", func() bool { return len(l.places("job")) == 2 })
	l.release(second)
	third := l.got(<-waiting)

	giveUp, cancel := context.WithTimeout(l.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := a.Acquire(giveUp, "job"); !errors.Is(err, context.DeadlineExceeded) {
		l.Errorf("a wait behind its own: %v", err)
	}
	l.must(third.Err())
	l.release(third)
	l.release(l.acquire(b)) // nothing of the wait stands before it
	l.noKeys("job")
}

func (l *life) acquire(c *stint.Client) *stint.Lease {
	l.Helper()
	return l.got(<-l.line(c))
}

type leased struct {
	lease *stint.Lease
	err   error
}

func (l *life) line(c *stint.Client) <-chan leased {
	out := make(chan leased, 1)
	ctx := context.WithoutCancel(l.long())
	go func() {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		lease, err := c.Acquire(limited, "job")
		if err != nil {
			cancel()
		} else {
			context.AfterFunc(lease.Context(), cancel)
		}
		out <- leased{lease, err}
	}()
	return out
}

func (l *life) got(r leased) *stint.Lease {
	l.Helper()
	if r.err != nil {
		l.Fatalf("not granted: %v", r.err)
	}
	if r.lease.Token() <= l.last {
		l.Errorf("token %d after %d", r.lease.Token(), l.last)
	}
	l.last = r.lease.Token()
	return r.lease
}

func (l *life) release(lease *stint.Lease) {
	l.Helper()
	// One that is told of its second arrival alone may hear of its successor.
	if err := lease.Release(l.long()); err != nil && !(l.retried && errors.Is(err, authority.ErrNotHeld)) {
		l.Errorf("release of %d: %v", lease.Token(), err)
	}
}
