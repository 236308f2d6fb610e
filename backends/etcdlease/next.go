package etcdlease

import "context"

// Who releases a name in whose line this client stands too need not wait for the
// watch to tell it: the Txn that deletes the place reads, after that, what the
// watch would have told before.

// nextOf returns the waiter of this client that may be the next after p, if there
// is one. a.mu is held.
func (a *Authority) nextOf(p *place) (next *place) {
	for w := range a.lines[p.name].waiters() {
		if w.created > p.created && (next == nil || w.created < next.created) {
			next = w
		}
	}
	return next
}

// tellNext tells the next that its turn has come, if the answer to the delete
// shows so: only the deleted place was ahead of it, and its own is there still,
// as it was. (Somebody may have removed that by hand, and only the watch would
// tell.) The floor is read with it: one that was raised since is not in the answer
// to the create. What is in doubt is left to the watch; what that has told
// already is not counted again, and when it tells this one later, the next is not
// in line any more. a.mu is held.
func (a *Authority) tellNext(o *op, u outcome) {
	p, next := o.p, o.next
	if a.news == nil || a.news.last >= u.revision {
		return // the watch has told
	}
	own := u.get(1).Kvs
	if _, waits := a.lines[p.name].waiters()[next]; !waits || next.op != nil || next.ahead != 1 || next.uncounted || len(own) == 0 ||
		own[0].CreateRevision != next.created || own[0].ModRevision != next.token {
		return
	}
	if floor := u.get(2).Kvs; len(floor) > 0 {
		next.floor = max(next.floor, floor[0].ModRevision)
	}
	a.depart(next, departure{p.key, p.created, p.token, u.revision})
}

// expresses is how many deletes at most go beside the Txn that is under way.
const expresses = 4

// express takes a delete for which a waiter of this client waits, and reports
// whether the caller is to send it with deliver, beside the Txn that is under
// way. That it may: it depends on nothing but the revision of its own place.
// a.mu is held.
func (a *Authority) express(o *op) bool {
	if !a.flying || len(a.lines[o.p.name].waiters()) == 0 || a.beside >= expresses || a.full || a.ctx.Err() != nil {
		return false
	}
	a.beside++
	a.group.Add(1)
	o.done = make(chan struct{})
	o.p.op = o
	return true
}

// deliver sends a delete on the caller's goroutine. As with flyAlone, a context
// that ends leaves the rest to one of its own.
func (a *Authority) deliver(ctx context.Context, o *op) {
	defer a.group.Done()
	one, cancel := context.WithTimeout(ctx, a.o.Timeout)
	stop := context.AfterFunc(a.ctx, cancel)
	f := a.transmit(one, []*op{o})
	stop()
	cancel()
	if f.err == nil {
		a.delivered(f, true)
		return
	}
	gone := ctx.Err() != nil
	a.group.Go(func() { a.delivered(f, !gone) })
}

// delivered takes what became of it: perhaps it has to be sent again.
func (a *Authority) delivered(f errand, late bool) {
	a.land(f, late)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beside--
	if len(a.queue) > 0 {
		a.launch()
	}
}
