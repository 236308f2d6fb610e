package etcdtests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// world is a cluster with a prefix of its own on it, and whoever looks at the
// keys from outside.
type world struct {
	*testing.T
	cluster *etcdcluster.Cluster
	raw     *clientv3.Client // behind no fault
	prefix  string
}

func newWorld(t *testing.T, nodes int, o etcdcluster.Options) *world {
	t.Helper()
	c := etcdcluster.Run(t, nodes, o)
	raw, err := clientv3.New(c.ClientConfig(c.Endpoints()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return &world{T: t, cluster: c, raw: raw, prefix: "w"}
}

var prefixes atomic.Int64

// on is the same cluster with an empty prefix, for another test.
func (w *world) on(t *testing.T) *world {
	return &world{T: t, cluster: w.cluster, raw: w.raw, prefix: fmt.Sprintf("w%d", prefixes.Add(1))}
}

// lease acquires a name. The lease descends from a context that lives as long as the
// test, not from one that only bounds how long this may take.
func (w *world) lease(c *stint.Client, name string) *stint.Lease {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	w.Cleanup(cancel)
	late := time.AfterFunc(30*time.Second, cancel)
	l, err := c.Acquire(ctx, name)
	if !late.Stop() || err != nil {
		w.Fatalf("acquiring %q: %v", name, err)
	}
	return l
}

// party is one process's view of the cluster: a way in, a fault layer, an
// authority, which meets the faults from its first request on. Everything is
// closed when the test ends.
type party struct {
	w     *world
	door  *etcdcluster.Door
	layer *grpcfault.Layer
	etcd  *clientv3.Client
	auth  *etcdlease.Authority
}

func (w *world) party(faults ...grpcfault.Fault) *party {
	w.Helper()
	return w.partyOf(etcdlease.Options{}, faults...)
}

// unhurried is for what counts requests: on a busy machine an authority rightly
// asks again what was not answered within its usual second, and this one does not.
var unhurried = etcdlease.Options{Timeout: 20 * time.Second}

func (w *world) partyOf(o etcdlease.Options, faults ...grpcfault.Fault) *party {
	w.Helper()
	door, err := w.cluster.Door()
	if err != nil {
		w.Fatal(err)
	}
	p := &party{w: w, door: door, layer: grpcfault.New()}
	p.layer.Arm(faults...)
	cfg := w.cluster.ClientConfig(door.Endpoints())
	cfg.DialOptions = append(cfg.DialOptions, p.layer.DialOptions()...)
	if p.etcd, err = clientv3.New(cfg); err != nil {
		w.Fatal(err)
	}
	o.Prefix = w.prefix
	if p.auth, err = etcdlease.New(p.etcd, o); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		p.layer.Disarm()
		p.open()
		if err := p.auth.Close(); err != nil && !errors.Is(err, authority.ErrClosed) {
			w.Errorf("closing the authority: %v", err)
		}
		p.etcd.Close()
		p.layer.Wait()
	})
	return p
}

// stint is a Client on the party's authority, closed when the test ends.
func (p *party) stint(o stint.Options) *stint.Client {
	p.w.Helper()
	c, err := stint.New(p.auth, o)
	if err != nil {
		p.w.Fatal(err)
	}
	p.w.Cleanup(func() {
		p.open()
		c.Close() // its error is about leases that were taken away
	})
	return c
}

// cut cuts the party off from all members; open undoes it, and delays.
func (p *party) cut()  { p.door.Each(func(l *etcdcluster.Link) { l.Cut() }) }
func (p *party) open() { p.door.Each(func(l *etcdcluster.Link) { l.Open(); l.Delay(0) }) }

func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.Cleanup(cancel)
	return ctx
}

// long is for what has to happen, whatever the machine's load.
func (w *world) long() context.Context { return w.within(30 * time.Second) }

var nonces atomic.Int64

// A lease of a test that is not about time outlives what a busy machine may take
// from any line of the test: lasting for one that the test itself renews or not,
// calm for one of a Client, whose renewals are seen soon all the same.
const lasting = 10 * time.Minute

var calm = stint.Options{TTL: 20 * time.Second, Renew: 2 * time.Second}

// stopwatch measures from now on how late the machine is, by the worst of many
// timers of this process; at least by the 10 ms that they are apart.
func (w *world) stopwatch() (late func() time.Duration) {
	const every = 10 * time.Millisecond
	var worst atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			began := now()
			select {
			case <-time.After(every):
			case <-end:
				return
			}
			worst.Store(max(worst.Load(), int64(now().Sub(began))))
		}
	}()
	w.Cleanup(func() { close(end); <-ended })
	return func() time.Duration { return time.Duration(max(worst.Load(), int64(every))) }
}

// ask is a request of its own nonce.
func ask(name string, length time.Duration) authority.Request {
	n := fmt.Sprintf("n%d", nonces.Add(1))
	return authority.Request{Name: name, Length: length, Nonce: n, Holder: "holder " + n}
}

// line is a request that stands in line.
func line(name string, length time.Duration) authority.Request {
	r := ask(name, length)
	r.Waiter = "waits-" + r.Nonce
	return r
}

func (p *party) acquire(r authority.Request) authority.Grant {
	p.w.Helper()
	g, err := p.auth.Acquire(p.w.long(), r)
	if err != nil {
		p.w.Fatalf("Acquire %+v: %v", r, err)
	}
	return g
}

// serve waits in line until r is granted.
func (p *party) serve(ctx context.Context, r authority.Request) (authority.Grant, error) {
	return p.serveTelling(ctx, r, func() {})
}

// serveTelling says each time that it stands in line and is about to wait.
func (p *party) serveTelling(ctx context.Context, r authority.Request, waits func()) (authority.Grant, error) {
	for {
		g, err := p.auth.Acquire(ctx, r)
		if !errors.Is(err, authority.ErrHeld) {
			return g, err
		}
		waits()
		if err := p.auth.Wait(ctx, r); err != nil {
			return g, err
		}
		if ctx.Err() != nil {
			return g, ctx.Err()
		}
	}
}

// granted is what serve in the background came to.
type granted struct {
	authority.Grant
	err error
	at  authority.Instant
}

// background begins to ask for r. Where it has come to is not known.
func (p *party) background(r authority.Request) <-chan granted {
	return p.backgroundTelling(r, func() {})
}

func (p *party) backgroundTelling(r authority.Request, waits func()) <-chan granted {
	out := make(chan granted, 1)
	ctx := p.w.long()
	go func() {
		g, err := p.serveTelling(ctx, r, waits)
		out <- granted{g, err, authority.BootClock{}.Now()}
	}()
	return out
}

// stand has r stand in line in the background, and returns when it does: its
// place is there, its client knows so, and it asks nothing more.
func (p *party) stand(r authority.Request) <-chan granted {
	p.w.Helper()
	waits := make(chan struct{})
	out := p.backgroundTelling(r, sync.OnceFunc(func() { close(waits) }))
	select {
	case <-waits:
	case g := <-out:
		p.w.Fatalf("%q does not stand in line: granted %+v, %v", r.Name, g.Grant, g.err)
	}
	return out
}

var errOutrun = errors.New("granted while another holds")

// rival has r granted in the background, after l has ended: it complains when l
// is good at the moment of the grant. What l itself says is compared, since when
// somebody else hears of its end is up to the scheduler.
func (p *party) rival(r authority.Request, l *stint.Lease) <-chan granted {
	out := make(chan granted, 1)
	ctx := p.w.long()
	go func() {
		g, err := p.serve(ctx, r)
		if over := l.Err(); err == nil && over == nil {
			err = fmt.Errorf("%w: token %d, and the holder of %d would go on for %v", errOutrun, g.Token, l.Token(), l.Status().Left)
		}
		out <- granted{g, err, authority.BootClock{}.Now()}
	}()
	return out
}

func (w *world) next(out <-chan granted) authority.Grant {
	w.Helper()
	g := <-out
	if g.err != nil {
		w.Fatalf("the waiter was not granted: %v", g.err)
	}
	return g.Grant
}

// place is one key of a name's line, as it lies in etcd.
type place struct {
	key            string
	created, lease int64
}

// places is the name's line, the oldest first.
func (w *world) places(name string) []place {
	w.Helper()
	got, err := w.raw.Get(w.long(), w.prefix+"/lock/"+name+"/", clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		w.Fatal(err)
	}
	var all []place
	for _, kv := range got.Kvs {
		all = append(all, place{string(kv.Key), kv.CreateRevision, kv.Lease})
	}
	return all
}

// breakGlass takes the name away from whoever holds it, by hand: the floor is
// raised and the holder's place removed in one step.
func (w *world) breakGlass(name string) (revision int64) {
	w.Helper()
	line := w.places(name)
	if len(line) == 0 {
		w.Fatalf("nobody holds %q", name)
	}
	r, err := w.raw.Txn(w.long()).Then(clientv3.OpPut(w.prefix+"/floor/"+name, "broken"), clientv3.OpDelete(line[0].key)).Commit()
	w.must(err)
	return r.Header.Revision
}

func (w *world) txn(ops ...clientv3.Op) error {
	_, err := w.raw.Txn(w.long()).Then(ops...).Commit()
	return err
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually waits for a condition, which may ask etcd: many tests do so at once,
// and what they wait for needs the processor, too.
func (w *world) eventually(what string, f func() bool) {
	w.Helper()
	for ctx := w.long(); !f(); time.Sleep(40 * time.Millisecond) {
		if ctx.Err() != nil {
			w.Fatalf("never came true: %s", what)
		}
	}
}

// noKeys waits until nothing is left of the name's line.
func (w *world) noKeys(name string) {
	w.Helper()
	w.eventually("nothing is left in line for "+name, func() bool { return len(w.places(name)) == 0 })
}

func (p *party) requests(method string) int {
	n := 0
	for _, m := range p.layer.Requests() {
		if strings.HasSuffix(m, method) {
			n++
		}
	}
	return n
}

func now() authority.Instant { return authority.BootClock{}.Now() }
