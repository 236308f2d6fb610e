package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// freeAddress is one on loopback where nobody listened a moment ago. It lies below
// the ports that the system gives to connections and to listeners of no port in
// particular, and below those of sqlnode: nobody else takes it before the node does.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 11_000+rand.IntN(9_000))
		if _, given := givenAddresses.LoadOrStore(address, true); given {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// givenAddresses are those of this process's tests.
var givenAddresses sync.Map

// nodes are the processes of a cluster.
type nodes struct {
	*world
	names, clients []string
	args           [][]string
	asURL          string // for those who ask how they do; default: url
	running        map[string]*process
}

// newNodes prepares 1 or 3 nodes with short election times.
func newNodes(w *world, n int) *nodes {
	c := &nodes{world: w, running: map[string]*process{}}
	var peers []string
	for i := range n {
		c.names = append(c.names, string(rune('a'+i)))
		c.clients = append(c.clients, freeAddress(w.t))
		peers = append(peers, c.names[i]+"="+freeAddress(w.t))
	}
	for i, name := range c.names {
		args := []string{"serve", "--data", w.path("node-" + name), "--listen", c.clients[i], "--heartbeat", "50ms", "--election", "500ms"}
		if n > 1 {
			args = append(args, "--name", name, "--peers", strings.Join(peers, ","))
		}
		c.args = append(c.args, args)
	}
	return c
}

func (c *nodes) url() string { return "etcd://" + strings.Join(c.clients, ",") }

// up starts the nodes that are not there, and waits until all of them serve.
func (c *nodes) up(more ...string) {
	c.t.Helper()
	for i, name := range c.names {
		if p := c.running[name]; p == nil || p.ended() {
			c.running[name] = c.start(append(c.args[i], more...)...)
		}
	}
	for name, p := range c.running {
		eventually(c.t, name+" serves", func() bool { return p.ended() || strings.Contains(p.out.String(), "serving") })
		if p.ended() {
			c.t.Fatalf("%s ended: %s", name, p.out.String())
		}
	}
}

// status asks stint serve status, until f likes what it says.
func (c *nodes) status(what string, f func(clusterStatus) bool) (st clusterStatus) {
	c.t.Helper()
	eventually(c.t, what, func() bool {
		p := c.run("serve", "status", "--json", "--authority", cmp.Or(c.asURL, c.url()))
		st = clusterStatus{}
		return json.Unmarshal([]byte(p.out.String()), &st) == nil && f(st)
	})
	return st
}

func (c *nodes) leader() string {
	c.t.Helper()
	return c.status("somebody leads", func(st clusterStatus) bool { return st.Leader != "" }).Leader
}

func TestServeTellsSystemdAndStopsInOrder(t *testing.T) {
	w := newWorld(t)
	dir, err := os.MkdirTemp("", "stint-notify-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "s"))
	told := func(want string) {
		t.Helper()
		b := make([]byte, 1000)
		if err := l.SetReadDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Fatalf("%q, %v; want %s", b[:n], err, want)
		}
	}
	c := newNodes(w, 1)
	c.up()
	told("READY=1\n")
	p := c.running["a"]
	p.signal(syscall.SIGTERM)
	told("STOPPING=1")
	p.expect(0)
	for line := range strings.Lines(p.out.String()) {
		if !strings.HasPrefix(line, "time=") || !strings.Contains(line, "level=INFO") {
			t.Errorf("noise: %s", line)
		}
	}
}

func TestServeLogsJSONAloneWhenItIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 1)
	c.up("--log", "json")
	again := w.run(append(c.args[0], "--log", "json")...)
	again.expect(69)
	c.running["a"].signal(syscall.SIGINT)
	c.running["a"].expect(0)
	for _, p := range []*process{again, c.running["a"]} {
		for line := range strings.Lines(p.out.String()) {
			var entry struct{ Level, Msg string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Msg == "" {
				t.Errorf("%v: %s", err, line)
			}
		}
	}
	if !strings.Contains(again.out.String(), `"do":"stop that one first`) {
		t.Errorf("the end is not told: %s", again.out.String())
	}
}

// A leader that is killed, and one that is stopped in order.
func TestThreeNodesGoOnWithoutTheirLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 3)
	c.up()
	a := w.start("run", "k", "--authority", c.url(), "--ttl", "20s", "--", "sh", "-c", "echo $STINT_TOKEN >token; exec sleep 300")
	token := w.content("token")
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		leader := c.leader()
		c.running[leader].signal(sig)
		c.running[leader].code()
		c.status("another leads", func(st clusterStatus) bool { return st.Leader != "" && st.Leader != leader })
		if a.ended() {
			t.Fatalf("the lease was lost with the leader: %s", a.out.String())
		}
		c.up()
	}
	st := c.status("all answer, and the lease is there", func(st clusterStatus) bool {
		return st.Leases != nil && *st.Leases == 1 && len(st.Nodes) == 3 && st.Nodes[0].Answers && st.Nodes[1].Answers && st.Nodes[2].Answers
	})
	if shown := w.run("show", "k", "--authority", c.url(), "--json"); !strings.Contains(shown.out.String(), `"token": `+token+",") {
		t.Errorf("the token changed from %s: %s", token, shown.out.String())
	}
	if got := fmt.Sprint(st.Revision); got < token {
		t.Errorf("revision %s, token %s", got, token)
	}
	a.signal(syscall.SIGTERM)
	a.code()
}

func TestANodeThatHasNotServedIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 3)
	missing := c.names[2]
	c.names = c.names[:2]
	c.up()
	st := c.status("two serve", func(st clusterStatus) bool { return st.Leader != "" && len(st.Nodes) == 3 })
	for _, n := range st.Nodes {
		if told := fmt.Sprint(n.Problems) == "[has not served yet]"; told == n.Answers {
			t.Errorf("%s is missing; told of %q: %+v", missing, n.Name, n)
		}
	}
	w.run("serve", "status", "--authority", c.url()).expect(69)
}

func TestTooFewFilesAreNamedBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 1)
	p := w.command(nil, "sh", "-c", "ulimit -n 128 && exec stint "+strings.Join(c.args[0], " "))
	p.expect(78)
	if !strings.Contains(p.out.String(), "may open only 128 files") {
		t.Error(p.out.String())
	}
}

func TestANodeThatWaitsForTheOthersStopsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 3)
	p := w.start(c.args[0]...)
	eventually(t, "it waits", func() bool { return strings.Contains(p.out.String(), "starting") })
	p.signal(syscall.SIGTERM)
	p.expect(0)
}
