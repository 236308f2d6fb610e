package etcdtests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// crowd lets n waiters of each party stand in line for a name, in the order of
// their numbers, and reports who was granted it.
func (w *world) crowd(ctx context.Context, name string, length time.Duration, n int, parties ...*party) <-chan turn {
	out := make(chan turn)
	var wg sync.WaitGroup
	for i := range n * len(parties) {
		p, r := parties[i%len(parties)], line(name, length)
		wg.Go(func() {
			g, err := p.serve(ctx, r)
			if err != nil && (ctx.Err() != nil || errors.Is(err, authority.ErrClosed)) {
				return
			}
			out <- turn{p, g, err}
		})
	}
	w.Cleanup(wg.Wait)
	// One create of a name at a time, for each client.
	for deadline := w.within(2 * time.Minute); w.inLine(name) != n*len(parties)+1; time.Sleep(50 * time.Millisecond) {
		if deadline.Err() != nil {
			w.Fatalf("%d stand in line, not %d", w.inLine(name)-1, n*len(parties))
		}
	}
	return out
}

// inLine counts the places of a name, without reading them.
func (w *world) inLine(name string) int {
	w.Helper()
	got, err := w.raw.Get(w.long(), w.prefix+"/lock/"+name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	w.must(err)
	return int(got.Count)
}

// turn is somebody who was granted the name.
type turn struct {
	p   *party
	g   authority.Grant
	err error
}

// TestAReleaseWakesExactlyOneOfAThousand: the others hear of it from the watch
// that their client has anyway, and send nothing.
func TestAReleaseWakesExactlyOneOfAThousand(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	holder := w.party()
	g := holder.acquire(ask("job", lasting))
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	waiters := 1000
	if raceDetector && !*long { // etcd reads the whole line for each who joins it
		waiters = 500
	}
	out := w.crowd(ctx, "job", lasting, waiters/4, w.partyOf(unhurried), w.partyOf(unhurried), w.partyOf(unhurried), w.partyOf(unhurried))

	const handovers = 50
	before := w.counts()
	who := holder
	for range handovers {
		w.must(who.auth.Release(w.long(), g))
		next := <-out
		w.must(next.err)
		if next.g.Token <= g.Token {
			t.Fatalf("token %d after %d", next.g.Token, g.Token)
		}
		who, g = next.p, next.g
	}
	after := w.counts()
	select {
	case extra := <-out:
		t.Errorf("two hold: %+v beside %+v", extra.g, g)
	default:
	}
	requests := 0
	for method, n := range after {
		if strings.HasPrefix(method, "KV/") {
			requests += int(n - before[method])
		}
	}
	t.Logf("%d handovers among %d waiters took %d requests, with the releases", handovers, waiters, requests)
	if requests > 3*handovers {
		t.Errorf("%d requests for %d handovers: more than two besides each release", requests, handovers)
	}
	cancel()
}

func (w *world) counts() map[string]int64 {
	w.Helper()
	c, err := w.cluster.Counts(w.long())
	w.must(err)
	return c
}

// TestAHandoverAsksNobody: who is next learns it from the watch alone.
func TestAHandoverAsksNobody(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	holder, waiter := w.party(), w.partyOf(unhurried)
	g := holder.acquire(ask("job", lasting))
	out := waiter.stand(line("job", lasting))
	before := waiter.requests("KV/Txn") + waiter.requests("KV/Range")
	w.must(holder.auth.Release(w.long(), g))
	w.next(out)
	if n := waiter.requests("KV/Txn") + waiter.requests("KV/Range") - before; n != 0 {
		t.Errorf("the waiter sent %d requests to become the holder", n)
	}
}

// TestAReleaseBetweenACreateAndItsAnswerIsNotMissed: the waiter's place is made,
// and before its client hears so, whoever was ahead has gone.
func TestAReleaseBetweenACreateAndItsAnswerIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	holder, waiter := w.party(), w.party()
	for i := range 5 {
		name := fmt.Sprintf("job%d", i)
		g := holder.acquire(ask(name, lasting))
		waiter.door.Each(func(l *etcdcluster.Link) { l.Delay(250*time.Millisecond, etcdcluster.Back) })
		out := waiter.background(line(name, lasting))
		w.eventually("it stands in line", func() bool { return len(w.places(name)) == 2 })
		time.Sleep(time.Duration(i) * 60 * time.Millisecond) // the moment is what is tried out
		w.must(holder.auth.Release(w.long(), g))
		won := w.next(out)
		waiter.door.Each(func(l *etcdcluster.Link) { l.Delay(0, etcdcluster.Back) })
		w.must(waiter.auth.Release(w.long(), won))
	}
}

// TestWhoLeavesTheMiddleWakesNobody: only whoever is ahead of everybody counts.
func TestWhoLeavesTheMiddleWakesNobody(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	holder, first, middle, last := w.party(), w.party(), w.party(), w.partyOf(unhurried)
	g := holder.acquire(ask("job", lasting))
	gone := line("job", lasting)
	outs := []<-chan granted{first.stand(line("job", lasting))}
	if _, err := middle.auth.Acquire(w.long(), gone); !errors.Is(err, authority.ErrHeld) { // and not waiting: it would come back
		t.Fatalf("the middle: %v", err)
	}
	outs = append(outs, last.stand(line("job", lasting)))
	before := last.requests("KV/Txn")
	w.must(middle.auth.Leave(w.long(), gone))
	w.eventually("the middle has gone", func() bool { return len(w.places("job")) == 3 })
	w.must(holder.auth.Release(w.long(), g))
	g = w.next(outs[0])
	select {
	case <-outs[1]:
		t.Fatal("the last was served beside the first")
	default:
	}
	w.must(first.auth.Release(w.long(), g))
	w.next(outs[1])
	if n := last.requests("KV/Txn") - before; n != 0 {
		t.Errorf("the last sent %d requests while others came and went", n)
	}
}
