package etcdlease

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// line is what this client follows of a name in which it has waiters. Each of
// them counts who is ahead: the count comes with the answer to its create, and
// every delete of an older place that the watch shows lowers it. At zero it
// holds, and nobody has to be asked.
type line struct {
	places  map[*place]struct{} // waiters of ours that are there
	coming  int                 // creates under way
	reading bool                // a read of the whole line is under way
	dirty   bool                // and has to be repeated
	floor   int64               // the latest that the watch has shown
	read    authority.Instant   // when it was read last, or begun
	early   []departure         // deletes that were seen meanwhile
}

// departure is the delete of a place, as the watch shows it.
type departure struct {
	key      string
	created  int64
	token    int64 // of the place when it was deleted
	revision int64 // of the delete
}

// follow makes sure that no departure is missed from here on. a.mu is held.
func (a *Authority) follow(name string) *line {
	l := a.lines[name]
	if l == nil {
		l = &line{places: map[*place]struct{}{}, read: a.clock.Now()}
		a.lines[name] = l
	}
	return l
}

// expect announces a create in the line; arrived ends it. a.mu is held.
func (a *Authority) expect(name string) { a.follow(name).coming++ }

func (a *Authority) arrived(name string) {
	l := a.lines[name]
	l.coming--
	l.clear()
	a.unfollow(name, l)
}

// clear forgets the departures that nobody needs any more.
func (l *line) clear() {
	if l.coming == 0 && !l.reading {
		l.early = nil
	}
}

func (a *Authority) unfollow(name string, l *line) {
	if len(l.places) == 0 && l.coming == 0 && a.lines[name] == l {
		delete(a.lines, name)
		if len(a.lines) == 0 && a.news != nil {
			a.news.idleSince = a.clock.Now()
		}
	}
}

// joined adds a waiter whose create was answered. a.mu is held.
func (a *Authority) joined(p *place) {
	if p.ahead == 0 {
		return // it holds already
	}
	l := a.follow(p.name)
	l.places[p] = struct{}{}
	if a.news == nil || p.created <= a.news.began {
		p.uncounted = true // made before the watch began anew
		a.resyncSoon(p.name)
	}
	if l.floor > p.created {
		p.floor = max(p.floor, l.floor)
	}
	for _, d := range l.early {
		if d.key == p.key && d.token == p.token {
			p.uncounted = true // its own place has gone already: the read will tell
			a.resyncSoon(p.name)
		}
		a.depart(p, d)
	}
}

// raised takes a floor from the watch. a.mu is held.
func (a *Authority) raised(name string, revision int64) {
	l := a.lines[name]
	if l == nil {
		return
	}
	l.floor = max(l.floor, revision)
	for p := range l.places {
		if p.created < revision {
			p.floor = max(p.floor, revision)
		}
	}
}

// leaveLine takes a place out of what is followed. a.mu is held.
func (a *Authority) leaveLine(p *place) {
	if l := a.lines[p.name]; l != nil {
		if _, ok := l.places[p]; ok {
			delete(l.places, p)
			a.unfollow(p.name, l)
		}
	}
}

// departed takes a delete from the watch. a.mu is held.
func (a *Authority) departed(name string, d departure) {
	if p := a.places[d.key]; p != nil && p.key == d.key && p.phase != removing && p.op == nil && p.token == d.token {
		a.drop(p) // its own place: by hand, or with the lease
	}
	l := a.lines[name]
	if l == nil {
		return
	}
	if l.coming > 0 || l.reading {
		l.early = append(l.early, d)
	}
	for p := range l.places {
		a.depart(p, d)
	}
}

func (a *Authority) depart(p *place, d departure) {
	if p.uncounted || d.revision <= p.asOf || d.created >= p.created || p.ahead == 0 {
		return
	}
	p.ahead--
	p.floor = max(p.floor, d.token)
	if p.ahead == 0 {
		a.leaveLine(p)
		p.wake()
	}
}

// resyncSoon reads a line anew, in the background. a.mu is held.
func (a *Authority) resyncSoon(name string) {
	l := a.lines[name]
	if l == nil || a.closing {
		return
	}
	l.dirty, l.read = true, a.clock.Now()
	if l.reading {
		return
	}
	l.reading = true
	a.group.Go(func() {
		for again := true; again; {
			a.mu.Lock()
			l.dirty = false
			a.mu.Unlock()
			ok := a.insist(func(ctx context.Context, m *member) error { return a.resync(ctx, m, name) })
			a.mu.Lock()
			again = ok && l.dirty && a.lines[name] == l
			if !again {
				l.reading = false
				l.clear()
			}
			a.mu.Unlock()
		}
	})
}

// resync counts anew, from a read, for all waiters of a name.
func (a *Authority) resync(ctx context.Context, m *member, name string) error {
	r, err := m.kv.Txn(ctx).Then(
		clientv3.OpGet(a.keys.line(name), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(a.keys.floor(name), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return err
	}
	floor := int64(0)
	if kvs := r.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		floor = kvs[0].ModRevision
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lines[name]
	if l == nil {
		return nil
	}
	for p := range l.places {
		a.recount(p, r.Responses[0].GetResponseRange().Kvs, r.Header.GetRevision(), floor)
	}
	for p := range l.places {
		for _, d := range l.early {
			a.depart(p, d)
		}
	}
	return nil
}

// recount takes a read of the whole line at a revision. a.mu is held.
func (a *Authority) recount(p *place, kvs []*mvccpb.KeyValue, revision, floor int64) {
	if p.created > revision || p.asOf > revision {
		return
	}
	ahead, there := 0, false
	for _, kv := range kvs {
		switch {
		case string(kv.Key) == p.key:
			there = true
		case kv.CreateRevision < p.created:
			ahead++
		}
	}
	p.ahead, p.uncounted, p.asOf, p.floor = ahead, false, revision, max(p.floor, floor)
	switch {
	case !there && p.op == nil:
		a.drop(p)
	case ahead == 0:
		a.leaveLine(p)
		p.wake()
	}
}
