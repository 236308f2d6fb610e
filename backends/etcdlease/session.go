package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// session is one lease at etcd, shared by all places of one length (or, where
// the user is limited, by some dozens of them).
//
// It has a guard key, which dies with it. Every create demands the guard's
// revision, so that one whose answer was lost is settled by changing the guard:
// it has happened by then, or it never will. And with the lease, all its keys
// go at once: a guard that is there proves that no place has gone with it.
type session struct {
	a      *Authority
	length time.Duration
	guard  string // the guard's key
	client string // its name in it
	ready  chan struct{}
	err    error // why there is none, after ready is closed
	id     clientv3.LeaseID
	kick   chan struct{}
	pulse  pulse

	// All below are guarded by Authority.mu.
	g       int64             // revision of the guard
	alive   authority.Instant // the lease is there until alive + length, proven
	touched authority.Instant // when somebody else was seen to have acted in its name
	places  []*place          // of ours, on it
	coming  int               // those that are about to be
	used    authority.Instant // when it was last asked for
	pace    time.Duration     // what the last round took
	over    bool              // nothing new is put on it
	cause   error
	round   *round              // under way, or nil
	last    authority.Instant   // when the last round that succeeded was sent
	strange map[string]struct{} // keys on the lease that nobody knows, as of the last list
	audits  int                 // rounds that needed no list
	listing bool                // a list is under way that nobody waits for
	haunted map[string]bool     // keys not to be used again
}

var (
	errSessionOver      = errors.New("the shared lease has ended")
	errLeaseGone        = errors.New("etcd has let the shared lease go")
	errUnproven         = errors.New("etcd has not confirmed the shared lease within its length")
	errRenewedElsewhere = errors.New("renewed by another process")
	errEndedBefore      = errors.New("ended before")
)

const (
	// idle is for how long a session without places is kept, in case of more.
	idle = time.Minute
	// minted is for how long the making of a session is tried.
	minted = 15 * time.Second
)

// session returns one of a length with room for one more, which it keeps until
// the caller lowers coming; it makes one if need be.
func (a *Authority) session(ctx context.Context, length time.Duration) (*session, error) {
	for {
		a.mu.Lock()
		if a.closing {
			a.mu.Unlock()
			return nil, errClosed()
		}
		s := a.roomy(length)
		s.used = a.clock.Now()
		s.coming++
		a.mu.Unlock()
		err := a.within(ctx, s.ready)
		if err == nil {
			err = s.err
		}
		a.mu.Lock()
		over := s.over
		if over || err != nil {
			s.coming--
		}
		a.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if !over {
			return s, nil
		}
	}
}

// run makes the session, keeps it, and ends it.
func (s *session) run() {
	a := s.a
	err := s.open()
	a.mu.Lock()
	s.err = err
	if err != nil {
		s.forget()
	} else {
		a.all[s] = struct{}{}
	}
	a.mu.Unlock()
	close(s.ready)
	if err != nil {
		return
	}
	for next := time.Duration(0); ; {
		t := time.NewTimer(next)
		select {
		case <-t.C:
		case <-s.kick:
		case <-a.ctx.Done():
		}
		t.Stop()
		if a.ctx.Err() != nil {
			return
		}
		var over bool
		if next, over = s.tend(); over {
			break
		}
	}
	s.revoke()
}

// forget takes the session out of use. a.mu is held.
func (s *session) forget() {
	a := s.a
	left := slices.DeleteFunc(a.current[s.length], func(other *session) bool { return other == s })
	if a.current[s.length] = left; len(left) == 0 {
		delete(a.current, s.length)
	}
}

func (s *session) nudge() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// open takes a lease from etcd, and puts the guard on it. A lease whose grant
// was not answered is empty, and runs out.
func (s *session) open() error {
	a := s.a
	ctx, cancel := context.WithTimeout(a.ctx, minted)
	defer cancel()
	want := int64(s.length / time.Second)
	var sent authority.Instant
	var ttl int64
	known := a.askWhetherLimited(ctx)
	err := a.net.do(ctx, func(ctx context.Context, m *member) error {
		sent = a.clock.Now()
		l, err := m.lease.Grant(ctx, want)
		if err == nil {
			s.id, ttl, s.pace = l.ID, l.TTL, 2*a.clock.Now().Sub(sent)
			a.net.note(l.GetRaftTerm())
		}
		return err
	})
	if err != nil {
		return a.o.explain(err)
	}
	if ttl != want {
		nearest := time.Duration(ttl) * time.Second
		a.giveUp(s.id)
		return &authority.LengthError{Asked: s.length, Nearest: nearest,
			Why: "etcd does not keep leases that short (its minimum is one and a half election timeouts)"}
	}
	err = a.net.do(ctx, func(ctx context.Context, m *member) error {
		absent := clientv3.Compare(clientv3.CreateRevision(s.guard), "=", 0)
		about := fmt.Sprintf(`{"length":%q,"lease":"%x"}`, s.length, int64(s.id))
		r, err := m.kv.Txn(ctx).If(absent).Then(clientv3.OpPut(s.guard, about, clientv3.WithLease(s.id))).Else(clientv3.OpGet(s.guard)).Commit()
		if err != nil {
			return err
		}
		s.g = r.Header.GetRevision()
		if !r.Succeeded {
			s.g = r.Responses[0].GetResponseRange().Kvs[0].ModRevision
		}
		return nil
	})
	if err != nil {
		a.giveUp(s.id)
		return a.o.explain(err)
	}
	<-known
	s.alive, s.last = sent, sent
	return nil
}

// giveUp revokes an empty lease; if that fails, it runs out.
func (a *Authority) giveUp(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(a.ctx, a.o.Timeout)
	defer cancel()
	m := a.net.current()
	_, _ = m.lease.Revoke(ctx, id)
}

// end takes the session out of use: no new places, no more renewals. What is on
// it ends by its own deadline. a.mu is held.
func (s *session) end(cause error) {
	if s.over {
		return
	}
	s.over, s.cause = true, cause
	s.forget()
	s.nudge()
	for _, p := range slices.Backward(s.places) { // drop takes it out
		switch {
		case cause == errLeaseGone && p.op == nil:
			s.a.drop(p) // surely not there: the guard was not
		case p.phase == inLine:
			p.wake() // its next try takes a new place
		}
	}
}

// tend looks after the session's places. It returns when to look again, and
// whether the session has ended.
func (s *session) tend() (time.Duration, bool) {
	a := s.a
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !s.over && now >= s.alive.Add(s.length) {
		s.end(errUnproven)
	}
	if !s.over && len(s.places)+s.coming == 0 && now.Sub(s.used) > idle {
		s.end(errSessionOver)
	}
	next := now.Add(s.interval())
	for _, p := range s.places {
		next = min(next, s.look(p, now))
	}
	if s.over {
		// All its deadlines are over by then, since none is later than its own.
		return next.Sub(now), len(s.places) == 0 || now >= s.alive.Add(s.length)
	}
	if due := s.last.Add(s.interval()); now >= due {
		s.begin()
	} else {
		next = min(next, due)
	}
	return max(next.Sub(now), time.Millisecond), false
}

// interval is the time between two rounds that nobody asks for.
func (s *session) interval() time.Duration { return min(s.length*3/10, time.Minute) }

// look ends the place if its time is over, and returns when to look again.
// a.mu is held.
func (s *session) look(p *place, now authority.Instant) authority.Instant {
	a, late := s.a, authority.Instant(1<<63-1)
	switch {
	case p.op != nil:
		return late
	case p.phase == removing:
		a.remove(p, opRemove)
	case p.phase == held:
		if end := p.deadline(); now < end {
			return end
		}
		a.remove(p, opExpire)
	case p.phase == inLine && p.waiter == "":
		// Its try is about to take it.
	case p.phase == inLine && s.over:
		a.remove(p, opRemove)
	case p.phase == inLine && p.waits == 0:
		if end := p.heard.Add(patience); now < end {
			return end
		}
		a.remove(p, opRemove)
	case p.phase == inLine:
		return s.lookAhead(p, now)
	}
	return late
}

// lookAhead reads the line of a waiter once in each length: the watch could have
// missed something without a word, and then nobody would ever wake it. a.mu is
// held.
func (s *session) lookAhead(p *place, now authority.Instant) authority.Instant {
	l := s.a.lines[p.name]
	if l == nil { // it holds
		return 1<<63 - 1
	}
	if now >= l.read.Add(s.length) {
		s.a.resyncSoon(p.name)
	}
	return l.read.Add(s.length)
}

// revoke ends the lease at etcd, with all that is left on it.
func (s *session) revoke() {
	a := s.a
	defer s.pulse.close()
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := a.net.do(a.ctx, func(ctx context.Context, m *member) error {
			_, err := m.lease.Revoke(ctx, s.id)
			return err
		})
		if err == nil || leaseGone(err) {
			break
		}
		if !rest(a.ctx, pause) {
			return
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, s)
	for _, p := range slices.Backward(s.places) {
		if p.op == nil {
			a.drop(p)
		}
	}
}
