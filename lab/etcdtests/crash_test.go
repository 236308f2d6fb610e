package etcdtests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	crashTrials  = 100
	crashHolders = 10              // processes, each with as many sessions as make the trials
	crashLength  = 6 * time.Second // a busy machine lets no shorter one be kept before the kill
)

// crashed is one name of a holder's process.
type crashed struct {
	name     string
	answered authority.Instant // when the last that was answered was sent
	sent     authority.Instant // when one was sent whose fate is not known; or zero
	freed    granted
}

// TestACrashedHoldersNameIsFreeSoonAndNeverEarly kills processes with kill -9 in
// the middle of everything. The earliest safe moment is one length after the last
// renewal that the server can have seen was sent. That most names are free within a
// second of it is etcd's half second and ours: where etcd itself is later with bare
// leases of nobody's meanwhile, ours may be later by as much, and no more.
func TestACrashedHoldersNameIsFreeSoonAndNeverEarly(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	rival := w.party()
	trials := make([]*crashed, crashTrials)
	for i := range trials {
		trials[i] = &crashed{name: fmt.Sprintf("job%d", i)}
	}
	ending := w.bareLeases(crashLength)
	var wg sync.WaitGroup
	for i := range crashHolders {
		per := crashTrials / crashHolders
		wg.Go(func() { w.crash(trials[i*per:(i+1)*per], time.Duration(i)*137*time.Millisecond, rival) })
	}
	wg.Wait()
	var late []time.Duration
	for _, c := range trials {
		if c.freed.err != nil {
			t.Fatalf("%s: the rival was not granted: %v", c.name, c.freed.err)
		}
		if early := c.answered.Add(crashLength).Sub(c.freed.at); early > 0 {
			t.Errorf("%s was granted %v before its crashed holder's lease was over", c.name, early)
		}
		late = append(late, c.freed.at.Sub(max(c.answered, c.sent).Add(crashLength)))
	}
	slices.Sort(late)
	at := func(share float64) time.Duration { return quantile(late, share) }
	t.Logf("%d names of crashed holders were free after the earliest safe moment by: least %v, p10 %v, p50 %v, p90 %v, p99 %v, most %v",
		len(late), at(0), at(.1), at(.5), at(.9), at(.99), at(1))
	bare := ending()
	slack := max(quantile(bare, .9)-etcdLooks, 0)
	t.Logf("%d bare leases ended meanwhile: nine of ten within %v of their end", len(bare), quantile(bare, .9))
	if at(.9) > time.Second+slack {
		t.Errorf("nine of ten names were free within %v, not one second and %v, after the earliest safe moment", at(.9), slack)
	}
}

// etcdLooks is how often etcd looks for leases that have run out.
const etcdLooks = 500 * time.Millisecond

func quantile(sorted []time.Duration, share float64) time.Duration {
	return sorted[int(share*float64(len(sorted)-1))].Round(time.Millisecond)
}

// bareLeases lets one lease after the other run out at etcd, each with a key, until
// ending is called. That tells by how much the keys of those that had ended were
// gone late, sorted.
func (w *world) bareLeases(length time.Duration) (ending func() []time.Duration) {
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	const bare = "bare/"
	var mu sync.Mutex
	began := map[string]authority.Instant{}
	var late []time.Duration
	gone := w.raw.Watch(ctx, bare, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	<-gone
	var both sync.WaitGroup
	both.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			key := fmt.Sprint(bare, n)
			lease, err := w.raw.Grant(ctx, int64(length/time.Second))
			mu.Lock()
			began[key] = now()
			mu.Unlock()
			if err == nil {
				_, err = w.raw.Put(ctx, key, "", clientv3.WithLease(lease.ID))
			}
			if err != nil && ctx.Err() == nil {
				w.Errorf("a bare lease: %v", err)
				return
			}
			rest(ctx, 100*time.Millisecond)
		}
	})
	both.Go(func() {
		for r := range gone {
			at := now()
			mu.Lock()
			for _, e := range r.Events {
				late = append(late, at.Sub(began[string(e.Kv.Key)].Add(length)))
			}
			mu.Unlock()
		}
	})
	return func() []time.Duration {
		w.eventually("a bare lease has ended", func() bool { mu.Lock(); defer mu.Unlock(); return len(late) > 0 })
		cancel()
		both.Wait()
		slices.Sort(late)
		return late
	}
}

// rest pauses, unless ctx ends before.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// crash runs one holder's process, kills it after a while, and waits for its
// names.
func (w *world) crash(trials []*crashed, after time.Duration, rival *party) {
	by := map[string]*crashed{}
	var names []string
	for _, c := range trials {
		names = append(names, c.name)
		by[c.name] = c
	}
	var complaint strings.Builder
	cmd, said, err := w.holder(names, &complaint)
	if err != nil {
		w.Error(err)
		return
	}
	var kill <-chan time.Time
	freed := map[string]<-chan granted{}
	for said != nil {
		select {
		case b, ok := <-said:
			switch c := by[b.Name]; {
			case !ok:
				said = nil
			case b.Sent:
				c.sent = b.At
			case b.Held:
				freed[b.Name] = rival.background(line(b.Name, crashLength))
				if len(freed) == len(trials) {
					kill = time.After(after + 2*time.Second)
				}
			default:
				c.answered, c.sent = b.At, 0
			}
		case <-kill:
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	if len(freed) != len(trials) {
		w.Errorf("a holder's process ended by itself: %s", complaint.String())
	}
	for name, out := range freed {
		g := <-out
		by[name].freed = g
		if g.err == nil {
			g.err = rival.auth.Release(w.Context(), g.Grant)
		}
		if g.err != nil {
			w.Error(g.err)
		}
	}
}
