package stint

import (
	"cmp"
	"context"
	"slices"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// families are the leases that are held, by the context that ends them. Often
// one ends thousands: it is asked once for all of them to tell of its end.
type families map[<-chan struct{}]*family

// family is the leases of one context: of all contexts that are done with the
// same channel.
type family struct {
	leases []*Lease
	unhook func() bool
}

// join adds a lease that was granted. The loop calls it.
func (fs families) join(l *Lease) {
	done := l.parent.Done()
	if done == nil {
		return // it never ends
	}
	f := fs[done]
	if f == nil {
		f = &family{}
		fs[done] = f
		rt := l.c.rt
		f.unhook = context.AfterFunc(l.parent, func() {
			rt.post(posted{family: f})
		})
	}
	l.family, l.sibling = f, int32(len(f.leases))
	f.leases = append(f.leases, l)
}

// leave takes out a lease that is over. The loop calls it.
func (fs families) leave(l *Lease) {
	f := l.family
	if f == nil {
		return
	}
	last := len(f.leases) - 1
	f.leases[l.sibling], f.leases[last].sibling = f.leases[last], l.sibling
	f.leases[last] = nil
	f.leases = f.leases[:last]
	l.family = nil
	if done := l.parent.Done(); last == 0 && fs[done] == f {
		delete(fs, done)
		f.unhook()
	}
}

// end appends an event for each lease of a context that was done at an instant,
// in the order of their acquires. Who is granted under that context from here on,
// in this very turn perhaps, is of another family: this one has told its end. The
// loop calls it.
func (fs families) end(f *family, events []posted, at authority.Instant) []posted {
	if len(f.leases) == 0 {
		return events
	}
	if done := f.leases[0].parent.Done(); fs[done] == f {
		delete(fs, done)
	}
	first := len(events)
	for _, l := range f.leases {
		events = append(events, posted{at: at, lease: l, event: protocol.Cancel{Cause: context.Cause(l.parent)}})
	}
	slices.SortFunc(events[first:], func(a, b posted) int { return cmp.Compare(a.lease.serial, b.lease.serial) })
	return events
}
