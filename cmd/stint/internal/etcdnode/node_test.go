package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// Several nodes leave connections among each other to etcd, which end by
// themselves some seconds after the nodes.
func TestMain(m *testing.M) {
	code := m.Run()
	err := goleak.Find()
	for end := time.Now().Add(limit); err != nil && time.Now().Before(end); {
		err = goleak.Find()
	}
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// limit is how long a test waits for what must happen.
const limit = 60 * time.Second

// freePort is an address on loopback where nobody listened a moment ago, below
// the ports that the system gives to whoever connects or asks for any.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(20_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// fast are settings of a single node that leads soon. A hash of a password at
// etcd's own cost takes seconds with the race detector: here it is the least.
func fast(t *testing.T, dir string) Settings {
	return Settings{Data: dir, Listen: freePort(t), Heartbeat: 20 * time.Millisecond, Election: 200 * time.Millisecond, PasswordCost: 4}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, s Settings) *Node {
	t.Helper()
	n, err := startFree(within(t), s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// startFree is Start where nobody else is to have the node's addresses: whoever
// took one since it was found free is waited for.
func startFree(ctx context.Context, s Settings) (*Node, error) {
	for {
		n, err := Start(ctx, s)
		if !errors.Is(err, ErrPortTaken) || ctx.Err() != nil {
			return n, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Stop(within(t)); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: []string{address}, DialTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestANodeServesStopsAndKnowsAgain(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	for i := range 3 {
		n := start(t, s)
		c := dial(t, s.Listen)
		r, err := c.Put(within(t), "k", fmt.Sprint(i))
		if err != nil {
			t.Fatal(err)
		}
		g, err := n.Client().Get(within(t), "k")
		if err != nil || len(g.Kvs) != 1 || g.Kvs[0].ModRevision != r.Header.Revision {
			t.Fatalf("%v, %v", g, err)
		}
		w := c.Watch(within(t), "k", clientv3.WithCreatedNotify())
		<-w
		stop(t, n) // though somebody watches
	}
}
