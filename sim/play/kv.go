package play

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/lockservice/kv"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// shared is a lock service whose clients keep all their locks under one lease.
// A1, A2, … are tasks of the client A: one process, one session.
type shared struct {
	st       *stage
	s        *kv.Server
	without  protocol.SharerRules
	keep     bool // a restore keeps leases and keys
	sessions map[string]*kv.Session
}

// sharedRules are those that a lock's parameter leaves out.
var sharedRules = []struct {
	param, value string
	rule         protocol.SharerRules
}{
	{"own-lease", "missing", protocol.ShareOwnTime},
	{"own-lease", "early", protocol.ShareWorkReturn},
	{"settle", "read", protocol.ShareGuard},
	{"unknown", "kept", protocol.ShareUnknown},
	{"proof", "lease", protocol.ShareProof},
	{"batch", "all", protocol.ShareOneCreate},
	{"answers", "any", protocol.ShareOneRound},
}

func newShared(st *stage, p script.Part) *shared {
	l := &shared{
		st: st, s: kv.NewServer(st.w, st.w.Machine("n1")), sessions: map[string]*kv.Session{},
		keep: p.Text("restored") == "keys",
	}
	l.s.Gateway = p.Text("leases") == "gateway"
	for _, r := range sharedRules {
		if p.Text(r.param) == r.value {
			l.without |= r.rule
		}
	}
	return l
}

// session is that of a machine's client.
func (l *shared) session(m *world.Machine) *kv.Session {
	client := strings.TrimRight(m.Name, "0123456789")
	if l.sessions[client] == nil {
		l.sessions[client] = kv.NewSession(l.s, m, kv.Config{
			Client: client, Length: l.st.Times.Length, Margin: l.st.Times.Margin, Timeout: l.st.Times.Timeout * 2 / 3, Without: l.without,
		})
	}
	return l.sessions[client]
}

// Call is Lock's.
func (l *shared) Call(from *world.Machine, r actor.Request, answer func(protocol.Answer)) {
	l.session(from).Do(from, ask(from, r), answer)
}

// Do is lockService's.
func (l *shared) Do(what string, args []string) {
	switch what {
	case "use":
		n, _ := strconv.Atoi(args[0])
		l.s.Use(n)
	case "break":
		l.st.log("lock", world.Event{What: "break-glass", Name: args[0], Why: "an operator deletes the key"})
		l.s.Break(args[0])
	case "save":
		l.s.Save()
	case "restore":
		n, _ := strconv.Atoi(args[0])
		l.s.Restore(n, l.keep)
	case "hold-create", "hold-keep-alive":
		l.s.Hold(strings.TrimPrefix(what, "hold-"), span(args))
	}
}

// Held is lockService's.
func (l *shared) Held(name string) bool { return l.s.State(name).Held }

// Describe is lockService's.
func (l *shared) Describe(name string) string {
	st := l.s.State(name)
	if !st.Held {
		return fmt.Sprintf("lock: rev %d, free", l.s.Revision())
	}
	return fmt.Sprintf("lock: rev %d, held with %d", l.s.Revision(), st.Grant.Token)
}
