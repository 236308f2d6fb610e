package lockservice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

const sec = time.Second

// scripted is a service whose elections are written down, on a network and disks
// that cost nothing, with n1 leading from the start.
func scripted(t *testing.T, cfg Config) (*world.World, *Service, *world.Machine) {
	t.Helper()
	w := world.New(1)
	w.Log.Keep = true
	cfg.Scripted = true
	s := New(w, cfg)
	s.Settle()
	if w.Now() != 0 {
		t.Fatalf("the first election took until %v", w.Now())
	}
	t.Cleanup(func() {
		for _, v := range s.Violations {
			t.Error(v)
		}
	})
	return w, s, w.Machine("A")
}

// call makes a request and waits for its answer at most for d.
func call(w *world.World, s *Service, from *world.Machine, a protocol.Ask, d time.Duration) (r protocol.Reply, ok bool) {
	waiting := true
	s.Do(from, a, func(reply protocol.Reply) {
		if waiting {
			r, ok = reply, true
			w.Stop()
		}
	})
	w.Run(w.Now() + d)
	waiting = false
	return r, ok
}

func acquire(name, nonce string) protocol.Ask {
	return protocol.Ask{Op: protocol.OpAcquire, Name: name, Nonce: nonce, Length: 10 * sec}
}

func at(t float64) time.Duration { return time.Duration(t * 1e9) }

func TestTheStoryHappensAtItsInstants(t *testing.T) {
	w, s, a := scripted(t, Config{Revision: 6})
	b := w.Machine("B")
	var grants []fence.Token
	take := func(m *world.Machine, nonce string) func() {
		return func() {
			s.Do(m, acquire("billing", nonce), func(r protocol.Reply) { grants = append(grants, r.Grant.Token) })
		}
	}
	renew := func(m *world.Machine, token fence.Token, nonce string) func() {
		return func() {
			s.Do(m, protocol.Ask{Op: protocol.OpRenew, Name: "billing", Grant: fence.Grant{Token: token, Nonce: nonce}}, func(r protocol.Reply) {
				if r.Err != nil {
					t.Errorf("%v: renewal: %v", w.Now(), r.Err)
				}
			})
		}
	}
	w.At(at(0), world.OrderTimer, take(a, "a"))
	w.At(at(3), world.OrderTimer, renew(a, 7, "a"))
	w.At(at(5), world.OrderTimer, func() { s.Do(b, protocol.Ask{Op: protocol.OpBump, By: 3}, func(protocol.Reply) {}) })
	w.At(at(13.5), world.OrderTimer, take(b, "b"))
	w.At(at(14), world.OrderFault, s.Nodes()[0].Machine.Crash)
	w.At(at(16.1), world.OrderFault, func() { s.Campaign(s.Nodes()[1]) })
	w.At(at(16.2), world.OrderTimer, renew(b, 12, "b"))
	w.Run(40 * sec)

	if fmt.Sprint(grants) != "[7 12]" {
		t.Errorf("tokens %v, want 7 and 12", grants)
	}
	var got []string
	for _, e := range w.Log.Events() {
		got = append(got, fmt.Sprintf("%s %s %s rev %d deadline %s", world.Seconds(e.T), e.Who, e.What, e.Rev, world.Seconds(e.Deadline)))
	}
	want := []string{
		"0 n1 leads rev 6 deadline 0",
		"0 n1 key-created rev 7 deadline 10",
		"3 n1 renewed rev 7 deadline 13",
		"5 n1 revisions-used rev 10 deadline 0",
		"13 n1 key-deleted rev 11 deadline 0",
		"13.5 n1 key-created rev 12 deadline 23.5",
		"16.1 n2 leads rev 12 deadline 0",
		"16.2 B connection-refused rev 0 deadline 0",
		"16.2 n2 renewed rev 12 deadline 26.2",
		"26.2 n2 key-deleted rev 13 deadline 0",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got:\n%s\nwant:\n%s", lines(got), lines(want))
	}
}

func lines(s []string) (out string) {
	for _, l := range s {
		out += l + "\n"
	}
	return out
}

func TestANewLeaderRestartsEveryLeaseAtFullLength(t *testing.T) {
	for _, c := range []struct {
		cfg  protocol.LessorConfig
		gone float64
	}{
		{protocol.LessorConfig{}, 59.1},
		{protocol.LessorConfig{Extra: sec}, 60.1},
		// Without the rule, what the follower has seen of the lease is all: the
		// grant at 46.2, and no renewal.
		{protocol.LessorConfig{Without: protocol.RuleFullLength}, 56.2},
	} {
		w, s, a := scripted(t, Config{Revision: 14, Lessor: c.cfg})
		w.Run(at(46.2))
		if r, ok := call(w, s, a, acquire("billing", "c"), 0); !ok || r.Grant.Token != 15 {
			t.Fatalf("acquired: %v %v", ok, r)
		}
		w.At(47*sec, world.OrderFault, s.Nodes()[0].Machine.Crash)
		w.At(at(49.1), world.OrderFault, func() { s.Campaign(s.Nodes()[1]) })
		w.Run(80 * sec)
		events := w.Log.Events()
		last := events[len(events)-1]
		if last.What != "key-deleted" || last.T != at(c.gone) {
			t.Errorf("%+v: the key went at %v (%s), want %v", c.cfg, last.T, last.What, at(c.gone))
		}
	}
}

func TestAMinorityGrantsNothing(t *testing.T) {
	w, s, a := scripted(t, Config{Nodes: 5})
	b := w.Machine("B")
	m := s.Machines()
	if r, ok := call(w, s, a, acquire("held", "a"), 0); !ok || r.Err != nil {
		t.Fatalf("before the cut: %v %v", ok, r)
	}
	// n1 and n2 with client A on one side; the rest with client B on the other.
	minority := append([]*world.Machine{a}, m[:2]...)
	w.Net.Split(minority, append([]*world.Machine{b}, m[2:]...))
	for _, ask := range []protocol.Ask{
		acquire("new", "a2"),
		{Op: protocol.OpRenew, Name: "held", Grant: fence.Grant{Token: 1, Nonce: "a"}},
		{Op: protocol.OpRelease, Name: "held", Grant: fence.Grant{Token: 1, Nonce: "a"}},
		{Op: protocol.OpInspect, Name: "held"},
	} {
		if r, ok := call(w, s, a, ask, sec/10); ok {
			t.Errorf("the minority answered %v: %v", ask.Op, r)
		}
	}
	w.Run(2 * sec)
	s.Campaign(s.Nodes()[2])
	w.Run(3 * sec)
	for range s.Nodes() { // B's way to a leader: past those who are cut off
		if r, ok := call(w, s, b, acquire("new", "b"), sec); ok && r.Err == nil {
			break
		}
	}
	old := s.Nodes()[0]
	if old.lessorRevision() != 1 {
		t.Errorf("the minority's revision went to %d", old.lessorRevision())
	}
	oldTerm := old.Term()
	w.Net.Heal()
	w.Run(10 * sec)
	if old.Leads() || old.Term() <= oldTerm || old.lessorRevision() != s.Revision() {
		t.Errorf("after healing, the old leader: leads %v, term %d, revision %d of %d", old.Leads(), old.Term(), old.lessorRevision(), s.Revision())
	}
	// Its uncommitted entries are gone: "new" is B's.
	if got := old.Lessor().State("new"); got.Grant.Nonce != "b" {
		t.Errorf("the old leader's entry came through: %+v", got)
	}
}

func (n *Node) lessorRevision() int64 { return n.state.lessor.Revision() }

func TestARestoreWithoutABumpRepeatsTokens(t *testing.T) {
	for _, c := range []struct {
		bump int64
		want fence.Token
	}{{0, 15}, {1_000_000, 1_000_015}} {
		var off protocol.Rules
		if c.bump == 0 {
			off = protocol.RuleBump
		}
		w, s, a := scripted(t, Config{Revision: 14, Lessor: protocol.LessorConfig{Without: off}})
		backup := s.Backup()
		if r, _ := call(w, s, a, acquire("billing", "c"), 0); r.Grant.Token != 15 {
			t.Fatalf("the first token is %v", r)
		}
		w.Run(45 * sec)
		if err := s.Restore(backup, c.bump); err != nil {
			t.Fatal(err)
		}
		w.Run(46 * sec)
		r, ok := call(w, s, a, acquire("billing", "d"), sec)
		if !ok || r.Grant.Token != c.want {
			t.Errorf("bump %d: answered %v: %v, want token %d", c.bump, ok, r, c.want)
		}
	}
}

// TestASecondRestoreWithTheSameBumpIsRefused: it would count from the backup, as
// the first one did, and hand out that one's tokens again.
func TestASecondRestoreWithTheSameBumpIsRefused(t *testing.T) {
	w, s, a := scripted(t, Config{Revision: 14})
	backup := s.Backup()
	restored := func(bump int64, want fence.Token) {
		t.Helper()
		if err := s.Restore(backup, bump); err != nil {
			t.Fatal(err)
		}
		w.Run(w.Now() + sec)
		if r, _ := call(w, s, a, acquire("billing", "n"), sec); r.Grant.Token != want {
			t.Fatalf("bump %d: %v, want token %d", bump, r, want)
		}
	}
	if r, _ := call(w, s, a, acquire("billing", "c"), 0); r.Grant.Token != 15 {
		t.Fatalf("the first token is %v", r)
	}
	if err := s.Restore(backup, 0); err == nil || !strings.Contains(err.Error(), "has to be 1 at the least") {
		t.Errorf("without a bump: %v", err)
	}
	restored(1_000_000, 1_000_015)
	if err := s.Restore(backup, 1_000_000); err == nil || !strings.Contains(err.Error(), "has to be 1000001 at the least") {
		t.Errorf("the same bump again: %v", err)
	}
	if s.State("billing").Grant.Token != 1_000_015 {
		t.Error("the refused restore has changed something")
	}
	restored(1_000_001, 1_000_016)
}

func TestAWatchWakesOnlyWhoWatchesTheKey(t *testing.T) {
	w, s, a := scripted(t, Config{})
	b, c := w.Machine("B"), w.Machine("C")
	first, _ := call(w, s, a, acquire("e/a", "a"), 0)
	second, _ := call(w, s, b, acquire("e/b", "b"), 0)
	var woken []string
	watch := func(m *world.Machine, key string, g authority.Grant) {
		s.Watch(m, protocol.Watch{Key: key, Token: g.Token, From: int64(second.Grant.Token)}, func() {
			woken = append(woken, fmt.Sprintf("%s %v", m.Name, w.Now()))
		})
	}
	watch(b, "e/a", first.Grant)
	watch(c, "e/b", second.Grant)
	w.Run(sec)
	call(w, s, a, protocol.Ask{Op: protocol.OpRelease, Name: "e/a", Grant: first.Grant.Grant}, 0)
	w.Run(2 * sec)
	watch(a, "e/a", first.Grant) // gone already
	w.Run(3 * sec)
	s.Nodes()[0].Machine.Crash() // C's watch is lost with the node
	w.Run(4 * sec)
	if got := fmt.Sprint(woken); got != "[B 1s A 2s C 3s]" {
		t.Errorf("woken: %s", got)
	}
}

// TestAWatchOlderThanAGrantOutOfOrderSendsItsOwnerToLookAgain: C stands behind B,
// and its watch arrives after A has passed B by for D. One removal would wake
// whoever stands behind D and C, too.
func TestAWatchOlderThanAGrantOutOfOrderSendsItsOwnerToLookAgain(t *testing.T) {
	w, s, a := scripted(t, Config{})
	ms := map[string]*world.Machine{"a": a, "b": w.Machine("B"), "c": w.Machine("C"), "d": w.Machine("D")}
	grants := map[string]authority.Grant{}
	for _, name := range []string{"a", "b", "d", "c"} {
		r, _ := call(w, s, ms[name], acquire("e/"+name, name), 0)
		grants[name] = r.Grant
	}
	looked := s.Revision()
	call(w, s, a, protocol.Ask{Op: protocol.OpPass, Name: "e/a", Grant: grants["a"].Grant, Key: "e/d"}, 0)
	var woken []string
	watch := func(name, key string, from int64) {
		s.Watch(ms[name], protocol.Watch{Key: "e/" + key, Token: grants[key].Token, From: from}, func() {
			woken = append(woken, name)
		})
		w.Run(w.Now() + sec)
	}
	watch("c", "d", looked) // when it looked, D stood before it
	watch("b", "d", s.Revision())
	if fmt.Sprint(woken) != "[c]" {
		t.Fatalf("woken: %v; want c, to look again", woken)
	}
	watch("c", "b", s.Revision())
	call(w, s, ms["d"], protocol.Ask{Op: protocol.OpRelease, Name: "e/d", Grant: grants["d"].Grant}, 0)
	w.Run(w.Now() + sec)
	if fmt.Sprint(woken) != "[c b]" {
		t.Errorf("woken: %v; want b alone by D's release", woken)
	}
}

func TestAWaitEndsWhenTheNameIsFree(t *testing.T) {
	w, s, a := scripted(t, Config{})
	b := w.Machine("B")
	first, _ := call(w, s, a, acquire("job", "a"), 0)
	other, _ := call(w, s, a, acquire("other", "a"), 0)
	var woken []string
	wait := func(name string) {
		s.Do(b, protocol.Ask{Op: protocol.OpWait, Name: name}, func(protocol.Reply) { woken = append(woken, fmt.Sprint(name, " ", w.Now())) })
	}
	wait("job")
	wait("other")
	wait("free")
	w.Run(2 * sec)
	call(w, s, a, protocol.Ask{Op: protocol.OpRelease, Name: "job", Grant: first.Grant.Grant}, 0)
	call(w, s, a, protocol.Ask{Op: protocol.OpRenew, Name: "other", Grant: other.Grant.Grant}, 0)
	w.Run(20 * sec)
	if got := fmt.Sprint(woken); got != "[free 0s job 2s other 12s]" {
		t.Errorf("woken: %s", got)
	}
	if r, ok := call(w, s, b, protocol.Ask{Op: protocol.OpLeave, Name: "job"}, 0); !ok || r.Err != nil {
		t.Errorf("leave: %v %v", ok, r)
	}
}

func TestANodeThatWasDownCatchesUpBySnapshot(t *testing.T) {
	w, s, a := scripted(t, Config{SnapshotEvery: 16})
	n3 := s.Nodes()[2]
	n3.Machine.Crash()
	for i := range 100 {
		if r, ok := call(w, s, a, acquire(fmt.Sprintf("job%d", i), "a"), sec); !ok || r.Err != nil {
			t.Fatalf("%d: %v %v", i, ok, r)
		}
	}
	n3.Machine.Restart()
	w.Run(w.Now() + 5*sec)
	if s.Installs != 1 || n3.lessorRevision() != 100 || string(n3.Lessor().Marshal()) != string(s.Backup()) {
		t.Errorf("%d snapshots installed, revision %d", s.Installs, n3.lessorRevision())
	}
	// It can lead with what it was given.
	s.Nodes()[0].Machine.Crash()
	w.Run(w.Now() + 2*sec)
	s.Campaign(n3)
	w.Run(w.Now() + sec)
	if r, ok := call(w, s, a, acquire("job7", "b"), sec); !ok || r.Err == nil {
		t.Errorf("job7 is held: answered %v, %v", ok, r)
	}
}

func TestACommitWaitsForTwoDisksAndTheNetwork(t *testing.T) {
	w, s, a := scripted(t, Config{})
	w.Net.Default.Delay = 10 * time.Millisecond
	for i, m := range s.Machines() {
		m.Disk.Cost = time.Duration(i+1) * time.Millisecond // 1, 2 and 3 ms
	}
	start := w.Now()
	r, ok := call(w, s, a, acquire("job", "a"), sec)
	// Client to leader 10, its disk 1, to the followers 10, the faster one's disk
	// 2, back 10, and to the client 10: the third node is not waited for.
	if took := w.Now() - start; !ok || r.Err != nil || took != 43*time.Millisecond {
		t.Errorf("granted %v %v after %v, want 43ms", ok, r.Err, took)
	}
}

func TestAPausedLeaderAnswersNothingThatWasTrueBefore(t *testing.T) {
	w, s, a := scripted(t, Config{})
	b := w.Machine("B")
	old := s.Nodes()[0]
	first, _ := call(w, s, a, acquire("job", "a"), sec)
	old.Machine.Pause(30 * sec)
	// A's renewal and look wait in the old leader's socket while another leads,
	// lets A's lease run out, and grants B.
	var answers []protocol.Reply
	for _, ask := range []protocol.Ask{
		{Op: protocol.OpRenew, Name: "job", Grant: first.Grant.Grant},
		{Op: protocol.OpInspect, Name: "job"},
	} {
		s.Do(a, ask, func(r protocol.Reply) { answers = append(answers, r) })
	}
	w.Run(w.Now() + 2*sec)
	s.Campaign(s.Nodes()[1])
	w.Run(w.Now() + 11*sec)
	var second protocol.Reply
	for range s.Nodes() {
		if r, ok := call(w, s, b, acquire("job", "b"), sec); ok {
			second = r
			break
		}
	}
	if second.Err != nil || second.Grant.Token <= first.Grant.Token {
		t.Fatalf("B: %v", second)
	}
	w.Run(60 * sec)
	for _, r := range answers {
		if r.Err == nil {
			t.Errorf("the old leader has answered %v", r)
		}
	}
}
