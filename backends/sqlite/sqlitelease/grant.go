package sqlitelease

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// answer is what a job found out.
type answer struct {
	grant   authority.Grant
	refusal error  // definite
	wake    string // the handle whose waiter is next
	repeat  bool   // refused only because the grant was released before
}

// Acquire implements authority.Authority.
func (a *Authority) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	if err := r.Check(); err != nil {
		return authority.Grant{}, err
	}
	leave, err := a.enter()
	if err != nil {
		return authority.Grant{}, err
	}
	defer leave()
	if err := a.refusedAtOnce(ctx, r); err != nil {
		return authority.Grant{}, err
	}
	out := new(answer) // not on the stack of a caller that may give up
	j := &job{run: func(c *conn, now authority.Instant) error {
		*out = answer{}
		return a.tryAcquire(c, now, r, out)
	}}
	j.then = func() {
		a.mark.raise(int64(out.grant.Token))
		if r.Waiter != "" {
			a.queue.settle(r, out.refusal != nil)
		}
	}
	if err := a.submit(ctx, j); err != nil {
		return authority.Grant{}, err
	}
	a.queue.pruneSometimes(out.grant.Token)
	return out.grant, out.refusal
}

// refusedAtOnce answers without the write lock where somebody else surely has
// the name and no place in line has to be taken. Nil decides nothing.
func (a *Authority) refusedAtOnce(ctx context.Context, r authority.Request) error {
	if r.Waiter != "" && !a.queue.inLine(r) {
		return nil
	}
	now := a.clock.Now() // before the look: what has ended by now stays ended
	var refusal error
	err := a.reader.read(ctx, func(c *conn) error {
		rec, err := c.lookup(r.Name)
		if err != nil || rec.grant.Nonce == r.Nonce {
			return err
		}
		place, err := c.place(r, rec.waiters)
		if err != nil || r.Waiter != "" && place.seq == 0 {
			return err
		}
		if rec.held(now) || place.ahead > 0 {
			refusal = &authority.HeldError{State: rec.public(now), Ahead: place.ahead}
		}
		return nil
	})
	if err != nil {
		return a.readFailed(ctx, err)
	}
	return refusal
}

// place is where a request stands in its line.
type place struct {
	seq   int64 // zero: not in line
	ahead int   // alive ones before it; all, if it is not in line
}

func (c *conn) place(r authority.Request, waiters int) (p place, err error) {
	p.ahead = waiters
	if r.Waiter == "" || waiters == 0 {
		return p, nil
	}
	p.seq, _, err = c.number(`SELECT seq FROM waiters WHERE name = ? AND waiter = ?`, r.Name, r.Waiter)
	if err != nil || p.seq == 0 {
		return p, err
	}
	n, _, err := c.number(`SELECT count(*) FROM waiters w JOIN handles h ON h.id = w.handle WHERE w.name = ? AND w.seq < ? AND h.alive > ?`,
		r.Name, p.seq, alive())
	p.ahead = int(n)
	return p, err
}

func (a *Authority) tryAcquire(c *conn, now authority.Instant, r authority.Request, out *answer) error {
	rec, err := c.lookup(r.Name)
	if err != nil {
		return err
	}
	if rec.held(now) && rec.state == granted && rec.grant.Nonce == r.Nonce { // its answer was lost
		out.grant = authority.Grant{Grant: rec.grant, Name: r.Name, Length: rec.length}
		return nil
	}
	place, err := c.place(r, rec.waiters)
	if err != nil {
		return err
	}
	if !rec.held(now) && place.ahead == 0 {
		return a.grant(c, now, r, out)
	}
	if r.Waiter != "" {
		if err := a.queue.join(c, r); err != nil {
			return err
		}
		if place.seq == 0 {
			rec.waiters++
		}
	}
	out.refusal = &authority.HeldError{State: rec.public(now), Ahead: place.ahead}
	return nil
}

func (a *Authority) grant(c *conn, now authority.Instant, r authority.Request, out *answer) error {
	token, found, err := c.number(`UPDATE authority SET counter = counter + 1 WHERE counter < ? RETURNING counter`, int64(fence.MaxToken))
	if err != nil {
		return err
	}
	if !found {
		return broken(fmt.Errorf("sqlitelease: %s: the token counter is used up: no lease can be granted from this file any more", a.path))
	}
	if m := a.mark.read(); m >= token {
		return a.setBack(token-1, m)
	}
	if r.Waiter != "" {
		if err := c.exec(`DELETE FROM waiters WHERE name = ? AND waiter = ?`, r.Name, r.Waiter); err != nil {
			return err
		}
	}
	out.grant = authority.Grant{Grant: fence.Grant{Token: fence.Token(token), Nonce: r.Nonce}, Name: r.Name, Length: r.Length}
	return c.exec(`INSERT OR REPLACE INTO leases (name, token, nonce, holder, since, length, deadline, state) VALUES (?, ?, ?, ?, ?, ?, ?, 0)`,
		r.Name, token, r.Nonce, r.KeptHolder(), time.Now().UnixMilli(), int64(r.Length), int64(now.Add(r.Length)))
}

// Renew implements authority.Authority. The length is the one stored with the
// grant.
func (a *Authority) Renew(ctx context.Context, g authority.Grant) (authority.Grant, error) {
	if err := check(g); err != nil {
		return authority.Grant{}, err
	}
	leave, err := a.enter()
	if err != nil {
		return authority.Grant{}, err
	}
	defer leave()
	out := new(answer)
	j := &job{run: func(c *conn, now authority.Instant) error {
		*out = answer{}
		length, found, err := c.number(`UPDATE leases SET deadline = ?1 + length
			WHERE name = ?2 AND token = ?3 AND nonce = ?4 AND state = 0 AND deadline > ?1 RETURNING length`,
			int64(now), g.Name, int64(g.Token), g.Nonce)
		if err != nil || !found {
			return c.notHeld(g, now, out, err)
		}
		out.grant = authority.Grant{Grant: g.Grant, Name: g.Name, Length: time.Duration(length)}
		return nil
	}}
	if err := a.submit(ctx, j); err != nil {
		return authority.Grant{}, err
	}
	return out.grant, out.refusal
}

// Release implements authority.Authority.
func (a *Authority) Release(ctx context.Context, g authority.Grant) error {
	if err := check(g); err != nil {
		return err
	}
	leave, err := a.enter()
	if err != nil {
		return err
	}
	defer leave()
	out := new(answer)
	j := &job{
		run: func(c *conn, now authority.Instant) error {
			*out = answer{}
			_, found, err := c.number(`UPDATE leases SET deadline = ?1, state = 1
				WHERE name = ?2 AND token = ?3 AND nonce = ?4 AND state <> 1 AND deadline > ?1 RETURNING 1`,
				int64(now), g.Name, int64(g.Token), g.Nonce)
			if err != nil || !found {
				return c.notHeld(g, now, out, err)
			}
			out.wake, err = c.first(g.Name)
			return err
		},
		then: func() { a.queue.wake(g.Name, out.wake) },
	}
	if err := a.submit(ctx, j); err != nil || out.repeat {
		return err
	}
	return out.refusal
}

// notHeld fills in the refusal of g.
func (c *conn) notHeld(g authority.Grant, now authority.Instant, out *answer, err error) error {
	if err != nil {
		return err
	}
	rec, err := c.lookup(g.Name)
	if err != nil {
		return err
	}
	out.refusal = &authority.NotHeldError{Grant: g.Grant, State: rec.public(now)}
	out.repeat = rec.grant == g.Grant && rec.state == released
	return nil
}

func check(g authority.Grant) error {
	return authority.Request{Name: g.Name, Length: authority.MinLength, Nonce: g.Nonce}.Check()
}
