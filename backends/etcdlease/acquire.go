package etcdlease

import (
	"context"
	"errors"

	"github.com/stint-dev/stint/authority"
)

// Acquire implements authority.Authority. A try that would not wait takes a
// place only if there is none; one with a Waiter takes a place behind the
// others, keeps it, and is granted what it has become.
func (a *Authority) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	if err := a.admit(ctx, r); err != nil {
		return authority.Grant{}, err
	}
	o, p, err := a.ask(ctx, r, false)
	if err != nil {
		return authority.Grant{}, err
	}
	return a.pursue(ctx, r, o, p)
}

// admit refuses requests that are not sent.
func (a *Authority) admit(ctx context.Context, r authority.Request) error {
	if err := seconds(r.Length); err != nil { // first: it knows the nearest
		return err
	}
	if err := r.Check(); err != nil {
		return err
	}
	return a.enter(ctx)
}

// ask finds the request's place or asks for one, and waits for what is under way
// for it.
func (a *Authority) ask(ctx context.Context, r authority.Request, join bool) (*op, *place, error) {
	o, p, fly, err := a.propose(ctx, r, join)
	if err == nil && o != nil {
		if err = a.await(ctx, o, fly); err != nil {
			a.abandon(p)
		}
	}
	return o, p, err
}

// pursue goes on with a request for which an op was carried out (nil: its place
// was there already).
func (a *Authority) pursue(ctx context.Context, r authority.Request, o *op, p *place) (authority.Grant, error) {
	for join := false; ; {
		if o != nil && o.kind.creates() && o.err != nil && !errors.Is(o.err, errSessionOver) {
			return authority.Grant{}, o.err
		}
		g, next, err := a.answer(ctx, r, o, p)
		if next == final || err != nil {
			return g, err
		}
		if next == joinLine {
			join = true
			if err := a.listen(ctx); err != nil {
				return authority.Grant{}, err
			}
		}
		if err := a.enter(ctx); err != nil {
			return authority.Grant{}, err
		}
		if o, p, err = a.ask(ctx, r, join); err != nil {
			return authority.Grant{}, err
		}
	}
}

// propose finds the request's place, or asks for one. It returns what is under
// way for it, or nil, and whether the caller is to send it.
func (a *Authority) propose(ctx context.Context, r authority.Request, join bool) (_ *op, _ *place, fly bool, _ error) {
	for {
		a.mu.Lock()
		if p := a.find(r); p != nil {
			p.unwanted = false
			o := p.op
			if o != nil {
				o.left = false
			}
			a.mu.Unlock()
			return o, p, false, nil
		}
		a.mu.Unlock()
		s, err := a.session(ctx, r.Length)
		if err != nil {
			return nil, nil, false, err
		}
		a.mu.Lock()
		s.coming--
		// It may have been asked for before its room was known.
		if s.over || s.filled() || a.find(r) != nil {
			a.mu.Unlock()
			continue
		}
		if a.closing {
			a.mu.Unlock()
			return nil, nil, false, errClosed()
		}
		o := a.begin(r, s, join)
		fly = a.pilot(o)
		a.mu.Unlock()
		return o, o.p, fly, nil
	}
}

// begin makes a place, and the op that asks for it. a.mu is held.
func (a *Authority) begin(r authority.Request, s *session, join bool) *op {
	kind := opTry
	if r.Waiter != "" && (join || len(a.lines[r.Name].waiters()) > 0) && a.listening() {
		kind = opJoin
	}
	p := a.add(r, s)
	if kind == opJoin {
		a.expect(r.Name)
	}
	if a.clock.Now().Sub(s.last) > s.length/8 {
		s.begin() // so that the grant counts from about now
	}
	return &op{kind: kind, p: p, value: newValue(r, s.client)}
}

// waiters are those of a line that is followed.
func (l *line) waiters() map[*place]struct{} {
	if l == nil {
		return nil
	}
	return l.places
}

// abandon is told that nobody waits for the outcome of a try any more. A waiter
// may try again.
func (a *Authority) abandon(p *place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.waiter != "":
		p.heard = a.clock.Now()
	case p.phase == creating:
		p.unwanted = true
	case p.phase == inLine:
		a.remove(p, opRemove)
	}
}

type then int

const (
	final then = iota
	tryAgain
	joinLine
)

// answer is what a place comes to for the try that asked.
func (a *Authority) answer(ctx context.Context, r authority.Request, o *op, p *place) (authority.Grant, then, error) {
	a.mu.Lock()
	switch {
	case o != nil && o.refused != nil && o.kind == opTry:
		return a.refuse(ctx, r, o) // unlocks
	case p.phase == held:
		g := p.grant()
		a.mu.Unlock()
		return g, final, nil
	case p.phase != inLine, p.s.over:
		a.mu.Unlock()
		return authority.Grant{}, tryAgain, a.cleared(ctx, p)
	case !p.first():
		p.heard = a.clock.Now()
		if p.waits == 0 {
			p.s.nudge()
		}
		ahead := p.ahead
		a.mu.Unlock()
		if o != nil && o.refused != nil {
			s := o.refused.first.state(r.Name, ahead)
			return authority.Grant{}, final, &authority.HeldError{State: s, Ahead: ahead - 1}
		}
		return a.stillHeld(ctx, r, p)
	case p.queuing != nil && p.floor > p.token: // somebody ahead had a later token
		o := p.op
		if o == nil {
			o = a.enqueue(&op{kind: opRetake, p: p})
		}
		a.mu.Unlock()
		if err := a.within(ctx, o.done); err != nil {
			return authority.Grant{}, final, err
		}
		if o.kind == opRetake && o.err != nil && !errors.Is(o.err, errSessionOver) {
			p.s.nudge() // if nobody tries again, the place goes
			return authority.Grant{}, final, o.err
		}
		return authority.Grant{}, tryAgain, nil
	}
	g := p.take()
	a.mu.Unlock()
	return g, final, nil
}

// ready reports whether a place is a grant that nobody was told of yet. a.mu is
// held.
func (p *place) ready() bool {
	return p.phase == inLine && !p.s.over && p.first() && (p.queuing == nil || p.floor <= p.token)
}

// take makes the grant of a place that is ready. a.mu is held.
func (p *place) take() authority.Grant {
	p.phase = held
	p.from = max(p.s.alive, p.proven)
	return p.grant()
}

// cleared waits for what ends a place.
func (a *Authority) cleared(ctx context.Context, p *place) error {
	a.mu.Lock()
	o := p.op
	if o == nil && (p.phase == removing || p.phase == inLine) {
		o = a.remove(p, opRemove)
	}
	a.mu.Unlock()
	if o == nil {
		return nil
	}
	if err := a.within(ctx, o.done); err != nil {
		return err
	}
	if o.err != nil && !errors.Is(o.err, errEndedBefore) && !errors.Is(o.err, errSessionOver) && !errors.Is(o.err, context.Canceled) {
		return o.err
	}
	return nil
}

// refuse answers a try that found the name taken. a.mu is held, and unlocked.
func (a *Authority) refuse(ctx context.Context, r authority.Request, o *op) (authority.Grant, then, error) {
	first := o.refused.first
	own := a.places[first.key]
	leaving := own != nil && (own.unwanted || own.phase == removing)
	a.mu.Unlock()
	switch {
	case first.Nonce == r.Nonce: // its own, by another client's hand
		return authority.Grant{Grant: first.grant(), Name: r.Name, Length: first.length}, final, nil
	case r.Waiter != "":
		return authority.Grant{}, joinLine, nil
	case leaving:
		// What an earlier try has left behind, which is on its way out.
		return authority.Grant{}, tryAgain, a.cleared(ctx, own)
	}
	s := first.state(r.Name, int(o.refused.count)-1)
	left, err := a.left(ctx, first)
	if err == nil {
		s.Left = left
	}
	return authority.Grant{}, final, &authority.HeldError{State: s, Ahead: int(o.refused.count) - 1}
}

// stillHeld answers a further try of somebody who waits.
func (a *Authority) stillHeld(ctx context.Context, r authority.Request, p *place) (authority.Grant, then, error) {
	v, err := a.view(ctx, r.Name, p.created)
	if err != nil {
		return authority.Grant{}, final, err
	}
	if v.ahead > 0 {
		return authority.Grant{}, final, &authority.HeldError{State: v.state(r.Name), Ahead: v.ahead - 1}
	}
	// It holds, or has lost its place: the watch, or the read, will tell.
	a.mu.Lock()
	if p.phase != inLine || p.first() {
		a.mu.Unlock()
		return authority.Grant{}, tryAgain, nil
	}
	a.resyncSoon(r.Name)
	turn := p.turns()
	a.mu.Unlock()
	return authority.Grant{}, tryAgain, a.within(ctx, turn)
}
