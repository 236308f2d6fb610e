package billing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// stage is told every step of a worker and can hold it there. It never changes
// what the worker does.
type stage struct {
	who  string
	hold Hold
	tell func(Event)     // called by one goroutine at a time
	goOn <-chan struct{} // the supervisor's word
	quit <-chan struct{} // the worker is to end

	telling sync.Mutex
	held    atomic.Bool  // the hold is over or under way: it happens once
	token   atomic.Int64 // of the latest grant

	// Held for reading while a request to the authority or to the store is under
	// way. A worker is held between its requests, never inside one: a process
	// frozen within SQLite's own write transaction keeps the file from everybody.
	authority, store sync.RWMutex
	// flush returns when the authority is at rest.
	flush func()
}

// at announces a step, and waits there if it is the one to be held at.
func (s *stage) at(e Event) {
	e.Who, e.At = s.who, authority.BootClock{}.Now()
	if e.Step == AfterAcquire {
		s.token.Store(int64(e.Token))
	}
	if e.Token == 0 {
		e.Token = fence.Token(s.token.Load())
	}
	s.say(e)
	if e.Err == "" && s.hold.at(e) && s.held.CompareAndSwap(false, true) {
		s.wait(e)
	}
}

func (s *stage) say(e Event) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.tell(e)
}

// wait first lets every other request of this process come to its end and keeps
// new ones back, then announces that the worker is held.
func (s *stage) wait(e Event) {
	s.authority.Lock()
	defer s.authority.Unlock()
	s.flush()
	if !e.Step.InTransaction() { // there it is this worker's own request
		s.store.Lock()
		defer s.store.Unlock()
	}
	e.At, e.Held = authority.BootClock{}.Now(), true
	s.say(e)
	select {
	case <-s.goOn:
	case <-s.quit:
	}
}

// watch tells the stage of every request to a.
func (s *stage) watch(a authority.Authority) authority.Authority {
	// A request whose time was up has returned, and may still be at work inside
	// the authority. This one goes through the same line and waits for its answer,
	// which is no: nobody ever held it.
	s.flush = func() {
		_ = a.Release(context.Background(), authority.Grant{Name: "nobody", Grant: fence.Grant{Token: 1, Nonce: "nobody"}, Length: time.Second})
	}
	w := watched{a, s}
	if q, ok := a.(authority.Queuer); ok {
		return watchedQueuer{w, q}
	}
	return w
}

type watched struct {
	authority.Authority
	s *stage
}

type watchedQueuer struct {
	watched
	authority.Queuer
}

func (w watched) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	w.s.at(Event{Step: BeforeAcquire})
	w.s.authority.RLock()
	defer w.s.authority.RUnlock()
	return w.Authority.Acquire(ctx, r) // the worker itself tells of the lease that it got
}

func (w watched) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	w.s.at(Event{Step: BeforeRenew})
	w.s.authority.RLock()
	next, err := w.Authority.Renew(ctx, g)
	w.s.authority.RUnlock()
	w.s.at(failure(Event{Step: AfterRenew}, err))
	return next, err
}

func (w watched) Release(ctx context.Context, g authority.Grant) error {
	w.s.at(Event{Step: BeforeRelease})
	w.s.authority.RLock()
	err := w.Authority.Release(ctx, g)
	w.s.authority.RUnlock()
	w.s.at(failure(Event{Step: AfterRelease}, err))
	return err
}
