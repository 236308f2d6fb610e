package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// applied carries out an entry of the log, and answers whoever waits for it
// here. What it changes in the tables depends on the log alone.
func (l *Lessor) applied(ev Applied) {
	r := l.apply(ev)
	if p, ok := l.take(ev.Command.ID); ok {
		r.ID, r.Op = p.ID, p.Op
		l.emit(r)
	}
}

func (l *Lessor) apply(ev Applied) Reply {
	c := ev.Command
	switch c.Op {
	case CmdGrant:
		return l.grant(c)
	case CmdCreate:
		return l.create(c)
	case CmdDelete:
		return l.remove(c)
	case CmdRevoke:
		l.revoke(c.Lease)
	case CmdExpire:
		// An old leader's, that was paused between its look at the deadline and
		// its proposal: in a later term the lease may have been renewed.
		if c.Term == ev.Term {
			l.revoke(c.Lease)
		}
	case CmdCheckpoint:
		return l.checkpointed(c, ev.Term)
	case CmdBump:
		l.rev += c.By
	case CmdPass:
		return l.pass(c)
	case CmdNumber:
		return l.number(c)
	}
	return Reply{}
}

func (l *Lessor) grant(c Command) Reply {
	if c.Lease == 0 || l.lease(c.Lease) != nil {
		return Reply{Err: fmt.Errorf("%w: lease %d exists or has no number", authority.ErrInvalid, c.Lease)}
	}
	l.addLease(lease{id: c.Lease, length: c.Length})
	return Reply{Lease: c.Lease}
}

// ownLease marks the numbers of leases that were made with their only key.
const ownLease = 1 << 63

func (l *Lessor) create(c Command) Reply {
	if k := l.key(c.Name); k != nil {
		if k.grant.Nonce != c.Grant.Nonce {
			return Reply{Err: &authority.HeldError{State: l.State(c.Name)}}
		}
		return l.granted(k) // the answer to an earlier copy was lost
	}
	if c.Lease != 0 && l.lease(c.Lease) == nil {
		return Reply{Err: &authority.NotHeldError{State: l.State(c.Name)}}
	}
	l.rev++
	k := key{name: c.Name, grant: fence.Grant{Token: fence.Token(l.rev), Nonce: c.Grant.Nonce}, lease: c.Lease, holder: c.Holder}
	if c.Lease == 0 {
		k.lease = ownLease | uint64(l.rev)
		l.addLease(lease{id: k.lease, length: c.Length, key: c.Name})
	}
	i, _ := slices.BinarySearchFunc(l.keys, k.name, func(e key, name string) int { return cmp.Compare(e.name, name) })
	l.keys = slices.Insert(l.keys, i, k)
	return l.granted(&l.keys[i])
}

func (l *Lessor) granted(k *key) Reply {
	return Reply{Lease: k.lease, Grant: authority.Grant{Grant: k.grant, Name: k.name, Length: l.lease(k.lease).length}}
}

// addLease adds a lease that lasts from now on, by this node's clock. A node
// that does not lead will not use the deadline, but for the rule full-length.
func (l *Lessor) addLease(n lease) {
	i, _ := slices.BinarySearchFunc(l.leases, n.id, func(e lease, id uint64) int { return cmp.Compare(e.id, id) })
	n.deadline = l.now.Add(n.length)
	l.leases = slices.Insert(l.leases, i, n)
	l.sooner(n.deadline)
}

// remove is the guarded delete: it takes away the very key that is asked for.
func (l *Lessor) remove(c Command) Reply {
	k := l.key(c.Name)
	switch {
	case k != nil && (c.Grant.IsZero() || k.grant == c.Grant):
		l.rev++
		l.drop(*k)
		return Reply{}
	case c.Grant.IsZero():
		return Reply{}
	}
	return Reply{Err: l.notHeld(c.Name, c.Grant)}
}

func (l *Lessor) notHeld(name string, g fence.Grant) error {
	return &authority.NotHeldError{Grant: g, State: l.State(name)}
}

// drop deletes a key, at the current revision, and a lease that was only its.
func (l *Lessor) drop(k key) {
	l.keys = slices.DeleteFunc(l.keys, func(e key) bool { return e.name == k.name })
	if k.lease&ownLease != 0 {
		l.dropLease(k.lease)
	}
	l.emit(Removed{k.name, k.grant.Token, l.rev})
}

func (l *Lessor) dropLease(id uint64) {
	l.leases = slices.DeleteFunc(l.leases, func(e lease) bool { return e.id == id })
}

// revoke ends a lease and deletes its keys, all at one revision.
func (l *Lessor) revoke(id uint64) {
	ls := l.lease(id)
	if ls == nil {
		return
	}
	if ls.key != "" {
		l.rev++
		l.drop(*l.key(ls.key))
		return
	}
	l.dropLease(id)
	var gone []key
	for _, k := range l.keys {
		if k.lease == id {
			gone = append(gone, k)
		}
	}
	if len(gone) > 0 {
		l.rev++
	}
	for _, k := range gone {
		l.drop(k)
	}
}

// checkpointed writes down what is left of a lease, or clears it for a renewal
// that waits for this.
func (l *Lessor) checkpointed(c Command, term uint64) Reply {
	ls := l.lease(c.Lease)
	if ls == nil {
		return Reply{Err: l.notHeld(c.Name, c.Grant)}
	}
	ls.left = c.Length
	if term == l.term && c.By > 0 {
		ls.seen = c.By
	}
	return l.renewed(c.Name, c.Grant, c.Lease)
}

// election is what the keys of one election have in common.
func election(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// pass hands the first place of an election to a named heir, before those who
// wait longer: a new grant, with a new token.
func (l *Lessor) pass(c Command) Reply {
	old, heir := l.key(c.Name), l.key(c.Key)
	switch {
	case old == nil || old.grant != c.Grant || !l.first(c.Name):
		return Reply{Err: l.notHeld(c.Name, c.Grant)}
	case heir == nil || heir == old || election(c.Key) != election(c.Name):
		return Reply{Err: fmt.Errorf("%w: %q does not stand in the line of %q", authority.ErrInvalid, c.Key, c.Name)}
	}
	l.rev++
	heir.ahead, heir.token = true, fence.Token(l.rev)
	l.raiseFloor(c.Name)
	l.drop(*old)
	l.emit(Moved{c.Key, fence.Token(l.rev), l.rev})
	return Reply{Grant: authority.Grant{Grant: fence.Grant{Token: fence.Token(l.rev), Nonce: l.key(c.Key).grant.Nonce}, Name: c.Key}}
}

// number gives the first of an election a token above its floor: its own was
// passed by a grant out of order.
func (l *Lessor) number(c Command) Reply {
	k := l.key(c.Name)
	if k == nil || k.grant != c.Grant || !l.first(c.Name) {
		return Reply{Err: l.notHeld(c.Name, c.Grant)}
	}
	l.rev++
	k.token = fence.Token(l.rev)
	l.raiseFloor(c.Name)
	return Reply{Grant: authority.Grant{Grant: fence.Grant{Token: k.token, Nonce: k.grant.Nonce}, Name: c.Name}}
}

func (l *Lessor) raiseFloor(name string) {
	if l.cfg.Without.Has(RuleFloor) {
		return
	}
	for i := range l.floors {
		if l.floors[i].election == election(name) {
			l.floors[i].token = fence.Token(l.rev)
			return
		}
	}
	l.floors = append(l.floors, floor{election(name), fence.Token(l.rev)})
}

// first reports whether a key leads its election.
func (l *Lessor) first(name string) bool {
	list := l.list(election(name))
	return len(list.Keys) > 0 && list.Keys[0].Key == name
}

// list returns the keys of an election in the order of the line.
func (l *Lessor) list(prefix string) Listed {
	i, _ := slices.BinarySearchFunc(l.keys, prefix, func(e key, p string) int { return cmp.Compare(e.name, p) })
	out := Listed{Rev: l.rev, Floor: l.floor(prefix)}
	for _, k := range l.keys[i:] {
		if !strings.HasPrefix(k.name, prefix) {
			break
		}
		out.Keys = append(out.Keys, Place{Key: k.name, Grant: k.grant, Token: max(k.token, k.grant.Token), Ahead: k.ahead})
	}
	slices.SortStableFunc(out.Keys, func(a, b Place) int {
		if a.Ahead != b.Ahead {
			if a.Ahead {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Grant.Token, b.Grant.Token)
	})
	return out
}
