package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestFiveNodesGoOnWithoutTwo: the leader and the next one are killed.
func TestFiveNodesGoOnWithoutTwo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 5)
	c.up()
	a := w.start("run", "k", "--authority", c.url(), "--ttl", "20s", "--", "sh", "-c", "echo $STINT_TOKEN >token; exec sleep 300")
	token := w.content("token")
	for range 2 {
		leader := c.leader()
		c.running[leader].signal(syscall.SIGKILL)
		c.running[leader].code()
		c.status("another leads", func(st clusterStatus) bool { return st.Leader != "" && st.Leader != leader })
	}
	w.run("run", "other", "--authority", c.url(), "--ttl", "20s", "-w", "20s", "--", "true").expect(0)
	if a.ended() {
		t.Fatalf("the lease was lost with two of five: %s", a.out.String())
	}
	if shown := w.run("show", "k", "--authority", c.url(), "--json"); !strings.Contains(shown.out.String(), `"token": `+token+",") {
		t.Errorf("the token changed from %s: %s", token, shown.out.String())
	}
	c.up()
	c.status("all five answer", func(st clusterStatus) bool {
		n := 0
		for _, one := range st.Nodes {
			if one.Answers {
				n++
			}
		}
		return st.Leader != "" && n == 5
	})
	a.signal(syscall.SIGTERM)
	a.code()
}
