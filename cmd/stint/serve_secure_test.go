package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// secured are three nodes with TLS for clients and among each other, and users.
type secured struct {
	*nodes
	ca    *issuer
	peers []string
}

func newSecured(w *world) *secured {
	s := &secured{nodes: newNodes(w, 3), ca: w.issuer()}
	w.put("root.pw", []byte("hunter2\n"))
	w.put("billing.pw", []byte("correct horse\n"))
	for i, name := range s.names {
		s.ca.node(name, 10)
		pem, key := w.path(name+".pem"), w.path(name+".key")
		s.args[i] = append(s.args[i], "--cert", pem, "--key", key, "--root-password-file", w.path("root.pw"),
			"--peer-cert", pem, "--peer-key", key, "--peer-ca", w.path("ca.pem"))
		for at, arg := range s.args[i] {
			if arg == "--peers" && i == 0 {
				for _, p := range strings.Split(s.args[i][at+1], ",") {
					_, address, _ := strings.Cut(p, "=")
					s.peers = append(s.peers, address)
				}
			}
		}
	}
	return s
}

// as is the nodes' URL for a user whose password is in USER.pw.
func (s *secured) as(user string) string {
	return "etcds://" + user + "@" + strings.Join(s.clients, ",") + "?ca=" + s.path("ca.pem") + "&password-file=" + s.path(user+".pw")
}

// TestThreeNodesKeepALeaseWhileTheirCertificatesAreReplaced: real processes, TLS
// on both sides, users; nothing is restarted for a certificate.
func TestThreeNodesKeepALeaseWhileTheirCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSecured(w)
	s.up()
	s.asURL = s.as("root")
	w.run("serve", "user", "add", "billing", "--password-file", w.path("billing.pw"), "--authority", s.as("root")).expect(0)
	a := w.start("run", "k", "--authority", s.as("billing"), "--ttl", "20s", "--", "sh", "-c", "echo $STINT_TOKEN >token; exec sleep 300")
	token := w.content("token")
	for url, want := range map[string]string{
		s.url():                   "the server speaks TLS on this port: write etcds://",
		"etcds://" + s.clients[0]: "is of an authority that is not in the system's authorities",
		"etcds://" + s.clients[0] + "?ca=" + w.path("ca.pem"):        "asks for a user",
		strings.Replace(s.as("billing"), "billing.pw", "root.pw", 1): `refuses the user "billing" or the password`,
	} {
		p := w.run("run", "k", "--authority", url, "-w", "30s", "--", "true")
		if p.expect(69); !strings.Contains(p.out.String(), want) {
			t.Errorf("%s: %q is missing in:\n%s", url, want, p.out.String())
		}
	}

	for _, name := range s.names {
		s.ca.node(name, 11)
	}
	for _, address := range append(s.clients, s.peers...) {
		if got := s.ca.shown(address); got != 11 {
			t.Errorf("%s shows the certificate %d", address, got)
		}
	}
	// Who is new to the others meets the new ones.
	leader := s.leader()
	s.running[leader].signal(syscall.SIGKILL)
	s.running[leader].code()
	s.status("another leads", func(st clusterStatus) bool { return st.Leader != "" && st.Leader != leader })
	s.up()
	s.status("all answer", func(st clusterStatus) bool {
		return st.Leader != "" && len(st.Nodes) == 3 && st.Nodes[0].Answers && st.Nodes[1].Answers && st.Nodes[2].Answers
	})
	if a.ended() {
		t.Fatalf("the lease was lost: %s", a.out.String())
	}
	if shown := w.run("show", "k", "--authority", s.as("billing"), "--json"); !strings.Contains(shown.out.String(), `"token": `+token+",") {
		t.Errorf("the token changed from %s: %s", token, shown.out.String())
	}
	a.signal(syscall.SIGTERM)
	a.code()
	s.stopAll()
}

// stopAll stops the nodes at the same moment. None waits for another one, which
// stops, too, for as long as etcd would: more than five seconds. A machine that had
// other things to do has another chance: what waits does so each time.
func (s *secured) stopAll() {
	s.t.Helper()
	for try := 1; ; try++ {
		s.leader()
		began := time.Now()
		for _, p := range s.running {
			p.signal(syscall.SIGTERM)
		}
		slow := ""
		for name, p := range s.running {
			if p.expect(0); time.Since(began) > 5*time.Second {
				slow += name + " took more than 5 s to stop: " + p.out.String()
			}
		}
		switch {
		case slow == "":
			return
		case try == 3:
			s.t.Fatal(slow)
		}
		s.up()
	}
}

// TestWithoutALoginItIsToldWhoAnswers: with one of three nodes nobody can log in,
// and the one that is there is told from those that are not.
func TestWithoutALoginItIsToldWhoAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := newSecured(w)
	s.up()
	for _, name := range s.names[1:] {
		s.running[name].signal(syscall.SIGKILL)
		s.running[name].code()
	}
	p := w.run("serve", "status", "--authority", s.as("root"))
	p.expect(69)
	for address, want := range map[string]string{s.clients[0]: noLogin, s.clients[1]: "nothing listens there", s.clients[2]: "nothing listens there"} {
		line := fmt.Sprintf("-     %s  %s", address, "")
		if _, rest, ok := strings.Cut(p.out.String(), line); !ok || !strings.Contains(strings.SplitN(rest, "\n", 2)[0], want) {
			t.Errorf("%s: %q is missing in:\n%s", address, want, p.out.String())
		}
	}
}
