package etcdtests

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAWaitOutlivesACompaction: the waiter's watch is cut off, meanwhile what it
// has not seen is compacted away, among it the very release that it waits for.
func TestAWaitOutlivesACompaction(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	first := a.acquire(ask("job", lasting))
	waiter := b.stand(line("job", lasting))
	b.cut()
	w.must(a.auth.Release(w.long(), first))
	put, err := w.raw.Put(w.long(), "elsewhere", "x")
	w.must(err)
	_, err = w.raw.Compact(w.long(), put.Header.Revision)
	w.must(err)
	b.door.Each((*etcdcluster.Link).Reset)
	b.open()
	g := w.next(waiter)
	w.must(b.auth.Release(w.long(), g))
	w.noKeys("job")
}

// TestAWaitOutlivesItsWatch: the stream breaks, or one of its messages is lost,
// at each of its first messages.
func TestAWaitOutlivesItsWatch(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for _, fault := range []grpcfault.Fault{
		{Kind: grpcfault.LoseRequest, Broken: true},
		{Kind: grpcfault.LoseAnswer, Broken: true},
		{Kind: grpcfault.LoseAnswer, Broken: true, N: 2},
		{Kind: grpcfault.LoseAnswer, Broken: true, N: 3},
		{Kind: grpcfault.DelayAnswer, Delay: time.Second},
		{Kind: grpcfault.RepeatAnswer, N: 2},
	} {
		fault.Method = "Watch/Watch"
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			w := all.on(t)
			a, b := w.party(), w.party()
			b.layer.Arm(fault)
			for range 3 {
				first := a.acquire(ask("job", 20*time.Second))
				waiter := b.stand(line("job", 20*time.Second))
				w.must(a.auth.Release(w.long(), first))
				w.must(b.auth.Release(w.long(), w.next(waiter)))
			}
			w.noKeys("job")
		})
	}
}

// TestAWaitOutlivesNewsThatAreLost: the stream goes on, and the message that tells
// of the release never comes. So a waiter looks by itself, once in its length.
func TestAWaitOutlivesNewsThatAreLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	for i := range 2 {
		name := fmt.Sprintf("job%d", i)
		first := a.acquire(ask(name, lasting))
		waiter := b.stand(line(name, 6*time.Second))
		b.layer.Arm(grpcfault.Fault{Method: "Watch/Watch", Only: news, Kind: grpcfault.LoseAnswer})
		w.must(a.auth.Release(w.long(), first))
		w.must(b.auth.Release(w.long(), w.next(waiter)))
		if b.layer.Struck() != i+1 {
			t.Error("no news were lost: this test has lost its point")
		}
	}
}

// TestAWaiterWhosePlaceIsTakenAwayIsToldAndStandsInLineAgain: its place is
// removed by hand in the middle of the line, or its lease has ended at etcd. Who
// stands behind it does not wait for it.
func TestAWaiterWhosePlaceIsTakenAwayIsToldAndStandsInLineAgain(t *testing.T) {
	all := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	for what, take := range map[string]func(w *world, p place) error{
		"by hand": func(w *world, p place) error { _, err := w.raw.Delete(w.long(), p.key); return err },
		"with its lease": func(w *world, p place) error {
			_, err := w.raw.Revoke(w.long(), clientv3.LeaseID(p.lease))
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := all.on(t)
			a, b, c := w.party(), w.party(), w.party()
			first := a.acquire(ask("job", lasting))
			waiter := b.stand(line("job", lasting))
			behind := c.stand(line("job", lasting))
			was := w.places("job")[1:]
			w.must(take(w, was[0]))
			w.eventually("it stands in line again, at the end", func() bool {
				l := w.places("job")
				return len(l) == 3 && l[1] == was[1] && l[2].created > was[1].created
			})
			w.must(a.auth.Release(w.long(), first))
			w.must(c.auth.Release(w.long(), w.next(behind)))
			w.must(b.auth.Release(w.long(), w.next(waiter)))
			w.noKeys("job")
		})
	}
}
