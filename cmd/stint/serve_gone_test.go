package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestWhyANodeDoesNotAnswerIsTold: one is killed and one is frozen, and then there
// is no leader. Of that, users who are not there are no reason.
func TestWhyANodeDoesNotAnswerIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 3)
	c.up()
	c.leader()
	says := func(want ...string) {
		t.Helper()
		var out string
		defer func() {
			if t.Failed() {
				t.Log(out)
			}
		}()
		eventually(t, strings.Join(want, ", "), func() bool {
			p := w.run("serve", "status", "--authority", c.url())
			p.expect(69)
			out = p.out.String()
			for _, s := range want {
				if !strings.Contains(out, s) {
					return false
				}
			}
			return true
		})
	}
	killed, frozen := c.running["a"], c.running["b"]
	killed.signal(syscall.SIGKILL)
	killed.code()
	says("connection refused: nothing listens there")
	frozen.signal(syscall.SIGSTOP)
	says("connection refused: nothing listens there", "has not answered", "leader    none", "leases    (not known)")
	frozen.signal(syscall.SIGCONT)
}
