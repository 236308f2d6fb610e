package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// watch is the one long-lived watch of a client, on all places and floors.
// It lives while there are waiters, and for a while after. One that would begin
// at an old revision, for each wait, would be served by etcd's catching up,
// every 100 ms; this one is always up to date.
type watch struct {
	ready     chan struct{} // closed when it has begun
	last      int64         // revision up to which it has been read
	began     int64         // revision since which nothing was missed
	idleSince authority.Instant
}

const (
	watchIdle = 10 * time.Second
	// A watch that is silent for a while is asked whether it is still there; one
	// that does not answer is begun anew at another member.
	watchAsk   = time.Second
	watchDeath = 2500 * time.Millisecond
)

// errElsewhere ends a watch at a member that does not lead: the leader knows of a
// change before all others.
var errElsewhere = errors.New("another member leads")

// listen makes sure that the watch runs, and waits until it does.
func (a *Authority) listen(ctx context.Context) error {
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		return errClosed()
	}
	w := a.news
	if w == nil {
		w = &watch{ready: make(chan struct{}), idleSince: a.clock.Now()}
		a.news = w
		a.group.Go(func() { a.hear(w) })
	}
	a.mu.Unlock()
	return a.within(ctx, w.ready)
}

// listening reports whether the watch runs. a.mu is held.
func (a *Authority) listening() bool {
	if a.news == nil {
		return false
	}
	select {
	case <-a.news.ready:
		return true
	default:
		return false
	}
}

// hear runs the watch, over broken connections, until nobody needs it.
func (a *Authority) hear(w *watch) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		m := a.net.current()
		began := a.clock.Now()
		switch err := a.hearFrom(w, m); {
		case err == nil:
			return
		case errors.Is(err, errElsewhere):
			pause = 10 * time.Millisecond
			continue
		case !rest(a.ctx, pause):
			return
		case a.clock.Now().Sub(began) > 5*time.Second:
			pause = 10 * time.Millisecond
		}
		a.net.suspect(m)
	}
}

// hearFrom watches one member. It returns nil when nobody listens any more.
func (a *Authority) hearFrom(w *watch, m *member) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(a.ctx))
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRange(clientv3.GetPrefixRangeEnd(a.keys.locks())), clientv3.WithPrevKV(), clientv3.WithCreatedNotify()}
	if w.last > 0 {
		opts = append(opts, clientv3.WithRev(w.last+1))
	}
	// Watch itself does not return while the member is not there.
	unanswered := time.AfterFunc(watchDeath, cancel)
	news := m.watcher.Watch(ctx, a.keys.floors(), opts...)
	unanswered.Stop()
	ask := time.NewTicker(watchAsk)
	defer ask.Stop()
	heard, begun := a.clock.Now(), false
	for {
		select {
		case r, ok := <-news:
			if !ok {
				return fmt.Errorf("the watch ended: %w", context.Cause(ctx))
			}
			if begun = begun || r.Created; begun { // until then it only echoes
				heard = a.clock.Now()
			}
			if err := a.takeNews(w, r); err != nil {
				return err
			}
		case <-ask.C:
			if a.deafen(w) {
				return nil
			}
			if a.net.elsewhere(m) {
				return errElsewhere
			}
			silent := a.clock.Now().Sub(heard)
			if silent > watchDeath {
				return fmt.Errorf("the watch has been silent for %v", silent)
			}
			if silent > watchAsk/2 {
				one, cancel := context.WithTimeout(ctx, watchAsk/2)
				_ = m.watcher.RequestProgress(one)
				cancel()
			}
		case <-a.ctx.Done():
			return nil
		}
	}
}

// deafen ends the watch if nobody has waited for a while.
func (a *Authority) deafen(w *watch) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.lines) > 0 || a.clock.Now().Sub(w.idleSince) < watchIdle {
		return false
	}
	a.news = nil
	return true
}

// takeNews takes one answer of the watch.
func (a *Authority) takeNews(w *watch, r clientv3.WatchResponse) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.CompactRevision != 0 { // what was missed is gone: read
		w.last = 0
		return fmt.Errorf("compacted at revision %d", r.CompactRevision)
	}
	if err := r.Err(); err != nil {
		return err
	}
	if r.Created {
		begin := w.last == 0
		if begin {
			w.last, w.began = r.Header.Revision, r.Header.Revision
		}
		select {
		case <-w.ready:
			if begin {
				a.resyncAll()
			}
		default:
			close(w.ready)
		}
		return nil
	}
	a.takeEvents(w, r.Events)
	if r.IsProgressNotify() {
		w.last = max(w.last, r.Header.Revision)
	}
	return nil
}

// takeEvents takes what has happened to floors and places. Floors first: one may
// have been raised in the very step that deleted a place. a.mu is held.
func (a *Authority) takeEvents(w *watch, events []*clientv3.Event) {
	seen := w.last
	for _, ev := range events {
		w.last = max(w.last, ev.Kv.ModRevision)
		if name, ok := a.keys.floorName(string(ev.Kv.Key)); ok && ev.Type == clientv3.EventTypePut {
			a.raised(name, ev.Kv.ModRevision)
		}
	}
	for _, ev := range events {
		name, ok := a.keys.name(string(ev.Kv.Key))
		switch {
		case !ok || ev.Type != clientv3.EventTypeDelete || ev.Kv.ModRevision <= seen:
		case ev.PrevKv == nil: // compacted meanwhile
			a.resyncSoon(name)
		default:
			a.departed(name, departure{string(ev.Kv.Key), ev.PrevKv.CreateRevision, ev.PrevKv.ModRevision, ev.Kv.ModRevision})
		}
	}
}

// resyncAll reads all lines that have waiters. a.mu is held.
func (a *Authority) resyncAll() {
	for name := range a.lines {
		a.resyncSoon(name)
	}
}
