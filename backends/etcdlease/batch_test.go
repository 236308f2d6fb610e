package etcdlease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

// carried is an authority without servers, in whose queue a try carries another
// one of its name.
func carried() (a *Authority, first, rider *op) {
	ctx, cancel := context.WithCancel(context.Background())
	a = &Authority{
		ctx: ctx, cancel: cancel, keys: keyspace{"stint"}, closed: make(chan struct{}),
		places: map[string]*place{}, nonces: map[nonce]*place{}, waiting: map[wait]*place{},
		current: map[time.Duration][]*session{}, lines: map[string]*line{},
	}
	s := &session{a: a, client: "x7q2", length: 5 * time.Second}
	try := func(nonce string) *op {
		r := authority.Request{Name: "job", Length: s.length, Nonce: nonce}
		o := &op{kind: opTry, p: a.add(r, s)}
		a.board(o)
		return o
	}
	first, rider = try("first"), try("rider")
	a.queue = a.take() // as if it were sent, and had to be sent again
	return a, first, rider
}

func ended(o *op) bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// TestATryThatIsGivenUpLeavesThoseItCarried: they go in its place.
func TestATryThatIsGivenUpLeavesThoseItCarried(t *testing.T) {
	a, first, rider := carried()
	defer a.cancel()
	if !slices.Equal(a.queue, []*op{first}) {
		t.Fatalf("%d ops go, not the first alone", len(a.queue))
	}
	a.abandon(first.p)
	if batch := a.take(); !slices.Equal(batch, []*op{rider}) {
		t.Errorf("%d ops go, not the other one alone", len(batch))
	}
	if !ended(first) || !errors.Is(first.err, context.Canceled) || ended(rider) {
		t.Errorf("the first: %v, %v; the other one has ended: %v", ended(first), first.err, ended(rider))
	}
}

// TestCloseEndsWhatIsQueuedAndWhatThatCarries: nobody is left without an answer.
func TestCloseEndsWhatIsQueuedAndWhatThatCarries(t *testing.T) {
	a, first, rider := carried()
	a.cancel()
	a.fly(nil)
	for _, o := range []*op{first, rider} {
		if !ended(o) || !errors.Is(o.err, authority.ErrClosed) {
			t.Errorf("%s: ended %v, %v", o.p.nonce, ended(o), o.err)
		}
	}
}
