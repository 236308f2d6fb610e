package grpcfault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) {
	etcdcluster.Main()
	goleak.VerifyTestMain(m)
}

// world is one etcd with a client behind the layer and one that is not.
type world struct {
	*testing.T
	layer        *grpcfault.Layer
	struck, free *clientv3.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := etcdcluster.Run(t, 1, etcdcluster.Options{})
	w := &world{T: t, layer: grpcfault.New()}
	w.free = w.client(c.ClientConfig(c.Endpoints()))
	cfg := c.ClientConfig(c.Endpoints())
	cfg.DialOptions = append(cfg.DialOptions, w.layer.DialOptions()...)
	w.struck = w.client(cfg)
	t.Cleanup(w.layer.Wait)
	return w
}

func (w *world) client(cfg clientv3.Config) *clientv3.Client {
	w.Helper()
	cl, err := clientv3.New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { cl.Close() })
	return cl
}

func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.Cleanup(cancel)
	return ctx
}

// await waits for what a server or another goroutine does in its own time.
func (w *world) await(what string, f func() bool) {
	w.Helper()
	for ctx := w.within(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			w.Fatalf("never came true: %s", what)
		}
	}
}

// version is how often a key was written.
func (w *world) version(key string) int64 {
	w.Helper()
	got, err := w.free.Get(w.within(10*time.Second), key)
	if err != nil {
		w.Fatal(err)
	}
	if len(got.Kvs) == 0 {
		return 0
	}
	return got.Kvs[0].Version
}

func TestOneRequestIsStruckAsArmed(t *testing.T) {
	w := newWorld(t)
	ok := func(err error) bool { return err == nil }
	late := func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
	broke := func(err error) bool { return status.Code(err) == codes.Unavailable }
	for i, c := range []struct {
		fault  grpcfault.Fault
		writes int64 // by the struck put, when it has returned
		told   func(error) bool
	}{
		{grpcfault.Fault{Kind: grpcfault.LoseRequest}, 0, late},
		{grpcfault.Fault{Kind: grpcfault.LoseRequest, Broken: true}, 0, broke},
		{grpcfault.Fault{Kind: grpcfault.LoseAnswer}, 1, late},
		{grpcfault.Fault{Kind: grpcfault.LoseAnswer, Broken: true}, 1, broke},
		{grpcfault.Fault{Kind: grpcfault.DelayRequest, Delay: 50 * time.Millisecond}, 1, ok},
		{grpcfault.Fault{Kind: grpcfault.DelayAnswer, Delay: 50 * time.Millisecond}, 1, ok},
		{grpcfault.Fault{Kind: grpcfault.DelayAnswer, Delay: time.Hour}, 1, late},
		{grpcfault.Fault{Kind: grpcfault.RepeatRequest}, 2, ok},
		{grpcfault.Fault{Kind: grpcfault.RetryRequest}, 2, ok},
	} {
		c.fault.Method, c.fault.N = "KV/Put", 2
		key := fmt.Sprint(i)
		before := w.layer.Struck()
		w.layer.Arm(c.fault)
		if _, err := w.struck.Put(w.within(10*time.Second), key, "first"); err != nil {
			t.Fatalf("%v: the put before it: %v", c.fault, err)
		}
		patience := 10 * time.Second
		if c.told(context.DeadlineExceeded) { // what comes after it is the same, however long it is
			patience = 700 * time.Millisecond
		}
		_, err := w.struck.Put(w.within(patience), key, "second")
		if !c.told(err) {
			t.Errorf("%v: the caller was told %v", c.fault, err)
		}
		w.await("the server has written", func() bool { return w.version(key) >= 1+c.writes })
		if got := w.version(key) - 1; got != c.writes || w.layer.Struck() != before+1 {
			t.Errorf("%v: the server wrote %d times, want %d; %d faults happened", c.fault, got, c.writes, w.layer.Struck()-before)
		}
	}
}

// TestOnlyWhatIsMeantCounts: of two writes of different keys, the second is meant.
func TestOnlyWhatIsMeantCounts(t *testing.T) {
	w := newWorld(t)
	w.layer.Arm(grpcfault.Fault{Method: "KV/Put", Kind: grpcfault.LoseRequest, Broken: true, Only: func(m any) bool {
		return string(m.(*pb.PutRequest).Key) == "meant"
	}})
	for key, writes := range map[string]int64{"other": 1, "meant": 0} {
		_, err := w.struck.Put(w.within(10*time.Second), key, "x")
		if got := w.version(key); got != writes || (err == nil) != (writes == 1) {
			t.Errorf("%s: %d writes, %v", key, got, err)
		}
	}
}

func TestADelayedRequestArrivesAfterItsCallerGaveUp(t *testing.T) {
	w := newWorld(t)
	late := make(chan struct{})
	w.layer.Arm(grpcfault.Fault{Method: "KV/Put", Kind: grpcfault.DelayRequest, Until: late})
	if _, err := w.struck.Put(w.within(50*time.Millisecond), "late", "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if w.version("late") != 0 {
		t.Error("it was there before it was sent")
	}
	close(late)
	w.layer.Wait()
	if w.version("late") != 1 {
		t.Error("it never arrived")
	}
}

func TestDoRunsBetweenTheServerAndTheCaller(t *testing.T) {
	w := newWorld(t)
	var before, after int64
	w.layer.Arm(
		grpcfault.Fault{Method: "KV/Put", Kind: grpcfault.BeforeRequest, Do: func() { before = w.version("a") }},
		grpcfault.Fault{Method: "KV/Put", N: 2, Kind: grpcfault.BeforeAnswer, Do: func() { after = w.version("a") }},
	)
	for range 2 {
		if _, err := w.struck.Put(w.within(10*time.Second), "a", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if before != 0 || after != 2 {
		t.Errorf("seen before the first request: %d, before the second's answer: %d", before, after)
	}
}

// TestMessagesOfAStreamAreStruckOneByOne: of three events the second is struck.
func TestMessagesOfAStreamAreStruckOneByOne(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		kind grpcfault.Kind
		want []string
	}{
		{grpcfault.LoseAnswer, []string{"1", "3"}},
		{grpcfault.RepeatAnswer, []string{"1", "2", "2", "3"}},
		{grpcfault.DelayAnswer, []string{"1", "2", "3"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		key := c.kind.String()
		events := w.struck.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithCreatedNotify())
		<-events // created
		before := w.layer.Struck()
		w.layer.Arm(grpcfault.Fault{Method: "Watch/Watch", N: 2, Kind: c.kind, Delay: 100 * time.Millisecond})
		var got []string
		for i, value := range []string{"1", "2", "3"} {
			if _, err := w.free.Put(w.within(10*time.Second), key, value); err != nil {
				t.Fatal(err)
			}
			if i == 1 && c.kind == grpcfault.LoseAnswer {
				// Or the third comes in one message with it.
				w.await("the second is lost", func() bool { return w.layer.Struck() > before })
				continue
			}
			for _, e := range (<-events).Events {
				got = append(got, string(e.Kv.Value))
			}
		}
		if len(got) < len(c.want) {
			for _, e := range (<-events).Events {
				got = append(got, string(e.Kv.Value))
			}
		}
		if len(got) != len(c.want) || got[len(got)-1] != "3" {
			t.Errorf("%v: got %v, want %v", c.kind, got, c.want)
		}
		cancel()
		for range events {
		}
	}
}

func TestAKeepAliveIsLostOnTheWay(t *testing.T) {
	w := newWorld(t)
	lease, err := w.free.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	w.layer.Arm(grpcfault.Fault{Method: "Lease/LeaseKeepAlive", Kind: grpcfault.LoseRequest})
	for ctx := w.within(20 * time.Second); w.layer.Struck() == 0 && ctx.Err() == nil; { // a stream may not open in so short a time
		if _, err := w.struck.KeepAliveOnce(w.within(300*time.Millisecond), lease.ID); status.Code(err) != codes.DeadlineExceeded && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a lost keep-alive: %v", err)
		}
	}
	w.layer.Arm(grpcfault.Fault{Method: "Lease/LeaseKeepAlive", Kind: grpcfault.LoseAnswer, Broken: true})
	if _, err := w.struck.KeepAliveOnce(w.within(10*time.Second), lease.ID); err != nil {
		t.Errorf("after a broken stream the library asks again, and failed: %v", err)
	}
	if w.layer.Struck() != 2 {
		t.Errorf("%d faults happened: %v", w.layer.Struck(), w.layer.Requests())
	}
}
