package etcdcluster_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	etcdcluster.Main()
	leaveOrphans()
	goleak.VerifyTestMain(m)
}

// client comes in through the given endpoints until the test ends.
func client(t *testing.T, c *etcdcluster.Cluster, endpoints []string) *clientv3.Client {
	t.Helper()
	cl, err := clientv3.New(c.ClientConfig(endpoints))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, cl *clientv3.Client, key string) {
	t.Helper()
	again(t, func(ctx context.Context) error { _, err := cl.Put(ctx, key, "x"); return err })
}

func get(t *testing.T, cl *clientv3.Client, key string) (kvs int) {
	t.Helper()
	again(t, func(ctx context.Context) error {
		got, err := cl.Get(ctx, key)
		if err == nil {
			kvs = len(got.Kvs)
		}
		return err
	})
	return kvs
}

// again makes attempts until one succeeds. Each has a time of its own: the
// client takes the members in turn, and one that is silent answers never.
func again(t *testing.T, attempt func(context.Context) error) {
	t.Helper()
	all := within(t, 20*time.Second)
	for {
		ctx, cancel := context.WithTimeout(all, 2*time.Second)
		err := attempt(ctx)
		cancel()
		if err == nil {
			return
		}
		if all.Err() != nil {
			t.Fatal(err)
		}
	}
}

func leader(t *testing.T, c *etcdcluster.Cluster) int {
	t.Helper()
	i, err := c.Leader(within(t, 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAClusterOutlivesItsLeader(t *testing.T) {
	c := etcdcluster.Run(t, 3, etcdcluster.Options{})
	cl := client(t, c, c.Endpoints())
	put(t, cl, "a")
	for name, takeAway := range map[string]func(i int){
		"kill":    func(i int) { must(t, c.Kill(i)) },
		"stop":    func(i int) { must(t, c.Stop(i)) },
		"cut off": func(i int) { c.CutOff(i) },
		"isolate": func(i int) { c.Isolate(i) },
	} {
		old := leader(t, c)
		takeAway(old)
		next := old
		for next == old {
			if next = leader(t, c); t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
		put(t, cl, name)
		switch name {
		case "kill":
			must(t, c.Restart(within(t, 30*time.Second), old))
		case "stop":
			must(t, c.Cont(old))
		default:
			c.Rejoin(old)
		}
		must(t, c.AwaitReady(within(t, 30*time.Second)))
		if get(t, cl, name) != 1 {
			t.Errorf("%s: what was written meanwhile is gone", name)
		}
	}
}

func TestAMemberRestartsOnItsData(t *testing.T) {
	c := etcdcluster.Run(t, 1, etcdcluster.Options{})
	cl := client(t, c, c.Endpoints())
	put(t, cl, "a")
	first := c.PID(0)
	must(t, c.Restart(within(t, 30*time.Second), 0))
	if c.PID(0) == first {
		t.Error("the same process runs on")
	}
	got, err := cl.Get(within(t, 10*time.Second), "a")
	if err != nil || len(got.Kvs) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	must(t, c.Shutdown(0))
	if _, err := c.Status(t.Context(), 0); err == nil {
		t.Error("a member that was shut down answers")
	}
}

func TestACutHoldsBytesBackAndOpeningDeliversThem(t *testing.T) {
	c := etcdcluster.Run(t, 1, etcdcluster.Options{})
	door, err := c.Door()
	must(t, err)
	cut, other := client(t, c, door.Endpoints()), client(t, c, c.Endpoints())
	put(t, cut, "warm")
	count := func(key string) int64 {
		got, err := other.Get(within(t, 10*time.Second), key)
		must(t, err)
		return got.Count
	}

	door.Each(func(l *etcdcluster.Link) { l.Cut(etcdcluster.Back) })
	_, err = cut.Put(within(t, time.Second), "answer lost", "x")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a put whose answer is held back returned %v", err)
	}
	for ctx := within(t, 20*time.Second); count("answer lost") != 1; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("only the answer was cut, yet the request did not arrive")
		}
	}

	door.Each(func(l *etcdcluster.Link) { l.Open(); l.Cut(etcdcluster.Out) })
	done := make(chan error, 1)
	go func() { _, err := cut.Put(within(t, 20*time.Second), "late", "x"); done <- err }()
	if got, err := cut.Get(within(t, time.Second), "late"); err == nil {
		t.Errorf("a request went through a cut: %v", got)
	}
	if count("late") != 0 {
		t.Error("a request went through a cut")
	}
	door.Each(func(l *etcdcluster.Link) { l.Open() })
	must(t, <-done)
	if count("late") != 1 {
		t.Error("what was held back did not arrive")
	}
}

func TestADelayMakesAnswersLate(t *testing.T) {
	c := etcdcluster.Run(t, 1, etcdcluster.Options{})
	door, err := c.Door()
	must(t, err)
	cl := client(t, c, door.Endpoints())
	put(t, cl, "warm")
	door.Each(func(l *etcdcluster.Link) { l.Delay(700*time.Millisecond, etcdcluster.Back) })
	begin := time.Now()
	put(t, cl, "a")
	if took := time.Since(begin); took < 700*time.Millisecond {
		t.Errorf("the answer came after %v", took)
	}
}

func TestRequestsAreCountedAtTheServers(t *testing.T) {
	c := etcdcluster.Run(t, 1, etcdcluster.Options{})
	cl := client(t, c, c.Endpoints())
	put(t, cl, "warm")
	before, err := c.Counts(t.Context())
	must(t, err)
	for range 7 { // not again: an attempt without an answer was counted, too
		_, err := cl.Put(within(t, 20*time.Second), "a", "x")
		must(t, err)
	}
	after, err := c.Counts(t.Context())
	must(t, err)
	if got := after["KV/Put"] - before["KV/Put"]; got != 7 {
		t.Errorf("7 puts were counted as %d: %v", got, after)
	}
	text, err := c.Metrics(t.Context(), 0)
	if err != nil || !strings.Contains(text, "etcd_server_has_leader 1") {
		t.Errorf("metrics: %v, %.200s", err, text)
	}
}

func TestUsersAndCertificatesAreAskedFor(t *testing.T) {
	ca, err := etcdcluster.NewCA(t.TempDir())
	must(t, err)
	server, err := ca.Issue(etcdcluster.Certificate{Name: "server"})
	must(t, err)
	peer, err := ca.Issue(etcdcluster.Certificate{Name: "peer"})
	must(t, err)
	user, err := ca.Issue(etcdcluster.Certificate{Name: "user"})
	must(t, err)
	server.ClientCerts, peer.ClientCerts = true, true
	c := etcdcluster.Run(t, 3, etcdcluster.Options{RootPassword: "secret", TLS: server, PeerTLS: peer, ClientTLS: user})
	put(t, client(t, c, c.Endpoints()), "a")

	wrong := c.ClientConfig(c.Endpoints())
	wrong.Password = "guessed"
	if cl, err := clientv3.New(wrong); err == nil {
		cl.Close()
		t.Error("a wrong password was let in")
	}
	plain := c.ClientConfig(c.Endpoints())
	plain.TLS, plain.Username, plain.Password = nil, "", ""
	cl, err := clientv3.New(plain)
	must(t, err)
	defer cl.Close()
	if _, err := cl.Get(within(t, time.Second), "a"); err == nil {
		t.Error("a client without a certificate was let in")
	}
}

func TestAMemberThatCannotStartSaysWhy(t *testing.T) {
	_, err := etcdcluster.Start(t.Context(), 1, etcdcluster.Options{FeatureGates: "NoSuchGate=true"})
	if err == nil || !strings.Contains(err.Error(), "NoSuchGate") {
		t.Errorf("got %v", err)
	}
}

const orphansEnv = "STINT_LAB_TEST_ORPHANS"

// leaveOrphans is the process that TestNoMemberSurvivesItsParent kills: it starts
// a cluster, stops one member, and says so.
func leaveOrphans() {
	if os.Getenv(orphansEnv) == "" {
		return
	}
	c, err := etcdcluster.Start(context.Background(), 3, etcdcluster.Options{Dir: os.Getenv(orphansEnv)})
	if err == nil {
		err = c.Stop(0)
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("up\n")
	select {}
}

func TestNoMemberSurvivesItsParent(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), orphansEnv+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line := make([]byte, 100)
	n, _ := out.Read(line)
	members := children(t, cmd.Process.Pid)
	must(t, cmd.Process.Kill())
	cmd.Wait()
	if string(line[:n]) != "up\n" || len(members) != 3 {
		t.Fatalf("the parent said %q and had the members %v", line[:n], members)
	}
	ctx := within(t, 20*time.Second)
	for _, pid := range members {
		for syscall.Kill(pid, 0) == nil && !zombie(pid) {
			if ctx.Err() != nil {
				t.Fatalf("member %d lives on without its parent", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
