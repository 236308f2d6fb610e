package protocol

import (
	"errors"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

var (
	errExpiring = errors.New("the lease has passed its deadline and is being taken away")
	errDeposed  = errors.New("the leader was replaced before it could answer")
)

// ask begins a request. Only the leader takes any.
func (l *Lessor) ask(a Ask) {
	if l.term == 0 {
		l.emit(Reply{ID: a.ID, Op: a.Op, Err: ErrNotLeader{}})
		return
	}
	p := pending{Ask: a}
	c := Command{ID: a.ID, Term: l.term, Lease: a.Lease, Length: a.Length, Name: a.Name, Key: a.Key, Grant: a.Grant, Holder: a.Holder}
	switch a.Op {
	case OpAcquire, OpCreate:
		c.Op, c.Grant = CmdCreate, fence.Grant{Nonce: a.Nonce}
	case OpGrant:
		c.Op = CmdGrant
	case OpRelease:
		c.Op = CmdDelete
	case OpRevoke:
		c.Op = CmdRevoke
	case OpPass:
		c.Op = CmdPass
	case OpNumber:
		c.Op = CmdNumber
	case OpBump:
		c.Op, c.By = CmdBump, a.By
	case OpRenew:
		if !l.renew(&p) {
			break
		}
		// The checkpoint says less than what is granted now: a leader who comes
		// to power between this answer and the next checkpoint must not go by it.
		c.Op, c.Length, c.Lease = CmdCheckpoint, 0, l.renews(a).id
	}
	l.pending = append(l.pending, p)
	if c.Op != 0 {
		l.emit(Propose{c})
	} else {
		l.emit(Confirm{a.ID})
	}
}

// renews finds the lease that a renewal is for: the one behind its very key, or
// the one that it names.
func (l *Lessor) renews(a Ask) *lease {
	if a.Name == "" {
		return l.lease(a.Lease)
	}
	// A lease that lives says nothing of its key, which may have been deleted
	// and created again by another.
	if k := l.key(a.Name); k != nil && k.grant == a.Grant {
		return l.lease(k.lease)
	}
	return nil
}

// renew moves the deadline at once: it costs nothing should the answer never be
// given. It reports whether a checkpoint has to be cleared first.
func (l *Lessor) renew(p *pending) (clear bool) {
	ls := l.renews(p.Ask)
	if ls == nil || ls.expiring {
		return false
	}
	p.kept = true
	ls.deadline = max(ls.deadline, l.now.Add(ls.length))
	return (ls.left > 0 || ls.written != ls.seen) && !l.cfg.Without.Has(RuleClearCheckpoint)
}

// confirmed answers what asks for no entry of the log.
func (l *Lessor) confirmed(id uint64) {
	p, ok := l.take(id)
	if !ok {
		return
	}
	r := Reply{ID: id, Op: p.Op}
	switch p.Op {
	case OpInspect:
		r.State = l.State(p.Name)
	case OpList:
		r.List = l.list(p.Name)
	case OpRenew:
		r = l.renewed(p.Name, p.Grant, p.Lease)
		if r.Err == nil && !p.kept {
			r = Reply{Err: errExpiring}
		}
		r.ID, r.Op = id, p.Op
	default: // waits for its command
		l.pending = append(l.pending, p)
		return
	}
	l.emit(r)
}

// renewed is the answer to a renewal whose deadline was moved. The key may have
// gone since then.
func (l *Lessor) renewed(name string, g fence.Grant, id uint64) Reply {
	ls := l.renews(Ask{Name: name, Grant: g, Lease: id})
	if ls == nil {
		return Reply{Err: l.notHeld(name, g)}
	}
	return Reply{Lease: ls.id, Grant: authority.Grant{Grant: g, Name: name, Length: ls.length}}
}

func (l *Lessor) take(id uint64) (pending, bool) {
	for i, p := range l.pending {
		if p.ID == id && id != 0 {
			l.pending = append(l.pending[:i], l.pending[i+1:]...)
			return p, true
		}
	}
	return pending{}, false
}

// promoted begins to lead. This node cannot know what was renewed at the leader
// before it, so every lease starts again at its full length, or with what the
// log says is left of it.
func (l *Lessor) promoted(term uint64) {
	l.demoted()
	l.term, l.due = term, 0
	for i := range l.leases {
		ls := &l.leases[i]
		ls.expiring, ls.written, ls.seen = false, 0, 0
		left := ls.length
		if ls.left > 0 {
			left = ls.left
		}
		if !l.cfg.Without.Has(RuleFullLength) {
			ls.deadline = l.now.Add(left + l.cfg.Extra)
		}
		l.sooner(ls.deadline)
	}
	l.checkpoint = l.now.Add(l.cfg.Checkpoint)
}

// demoted ends to lead. What waits has an unknown outcome: its command may be in
// the log.
func (l *Lessor) demoted() {
	l.term, l.due = 0, 0
	for _, p := range l.pending {
		l.emit(Reply{ID: p.ID, Op: p.Op, Err: errDeposed})
	}
	l.pending = nil
}

func (l *Lessor) sooner(t Instant) {
	if l.due == 0 || t < l.due {
		l.due = t
	}
}

// ticked takes away what has passed its deadline, through the log.
func (l *Lessor) ticked() {
	if l.term == 0 {
		return
	}
	if l.cfg.Checkpoint > 0 && l.now >= l.checkpoint {
		l.writeCheckpoints()
	}
	if l.due == 0 || l.now < l.due {
		return
	}
	l.due = 0
	for i := range l.leases {
		ls := &l.leases[i]
		if l.now >= ls.deadline {
			// From here on no renewal is answered: the key may go at any time.
			ls.expiring = true
			ls.deadline = l.now.Add(l.cfg.Retry)
			l.emit(Propose{Command{Op: CmdExpire, Term: l.term, Lease: ls.id}})
		}
		l.sooner(ls.deadline)
	}
}

func (l *Lessor) writeCheckpoints() {
	l.checkpoint = l.now.Add(l.cfg.Checkpoint)
	for i := range l.leases {
		ls := &l.leases[i]
		left := ls.deadline.Sub(l.now)
		if ls.expiring || left <= 0 {
			continue
		}
		l.written++
		ls.written = l.written
		l.emit(Propose{Command{Op: CmdCheckpoint, Term: l.term, Lease: ls.id, Length: left, By: l.written}})
	}
}
