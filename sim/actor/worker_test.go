package actor

import (
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

func TestAWorkerDoesItsJobAndGivesTheLeaseBack(t *testing.T) {
	r := newRig(t, Locking{})
	w, _ := r.worker("A", WorkerConfig{})
	over := 0
	w.OnOver = func() { over++ }
	w.Start()
	r.run(20 * time.Second)
	if j := r.table.Table.Read("job"); j.State != fence.Done || j.Charged() != 5 || j.Twice() != 0 {
		t.Errorf("the job is %+v", j)
	}
	if !w.Done() || over != 1 || len(r.lock.held) != 0 || w.Holder().Grant().Token != 1 {
		t.Errorf("done %v, over %d times, held %v", w.Done(), over, r.lock.held)
	}
	w.Cancel() // after the end it changes nothing
	r.run(21 * time.Second)
	r.expect("A", "lets-go", 1)
}

// TestAWorkerAsksASilentStoreUntilItsStopTime, and not longer.
func TestAWorkerAsksASilentStoreUntilItsStopTime(t *testing.T) {
	r := newRig(t, Locking{})
	w, m := r.worker("A", WorkerConfig{Retry: time.Second})
	r.w.Net.Split([]*world.Machine{m}, []*world.Machine{r.table.Machine()})
	r.at(5*time.Second, func() { r.lock.deaf = true }) // so that it cannot renew
	w.Start()
	r.run(30 * time.Second)
	stop := 11 * time.Second // renewed last at 3
	end := r.last("A", "lets-go")
	if end.T < stop || end.T > stop+time.Second || end.Why != "past its stop time, and the store does not answer" {
		t.Errorf("it lets go at %v: %s", end.T, end.Why)
	}
	if n := r.count("A", "asks-again"); n < 9 || n > 11 {
		t.Errorf("it asked again %d times", n)
	}
}

func TestARequestThatTheNetworkDoublesIsDoneOnce(t *testing.T) {
	for _, inTx := range []time.Duration{0, 200 * time.Millisecond} {
		r := newRig(t, Locking{})
		w, m := r.worker("A", WorkerConfig{InTx: inTx})
		for _, l := range []*world.Link{r.w.Net.Link(m, r.table.Machine()), r.w.Net.Link(r.table.Machine(), m)} {
			l.Twice, l.Delay, l.Jitter = 1_000_000, 5*time.Millisecond, 20*time.Millisecond
		}
		w.Start()
		r.run(30 * time.Second)
		if j := r.table.Table.Read("job"); j.Charged() != 5 || j.Twice() != 0 || j.State != fence.Done {
			t.Errorf("in a transaction for %v: %+v\n%s", inTx, j, r.text())
		}
	}
}

func TestWhatAnEarlierLifeBeganIsNotHeard(t *testing.T) {
	r := newRig(t, Locking{})
	w, m := r.worker("A", WorkerConfig{Again: time.Second})
	l := r.w.Net.Link(r.table.Machine(), m)
	l.Delay = 3 * time.Second // the answer to its first raise comes at 3
	w.Start()
	r.at(time.Second, m.Crash)
	r.at(2*time.Second, m.Restart)
	r.at(2500*time.Millisecond, func() { delete(r.lock.held, "job") })
	r.at(3500*time.Millisecond, func() { l.Delay = 0 })
	r.run(40 * time.Second)
	if j := r.table.Table.Read("job"); j.Charged() != 5 || j.Twice() != 0 {
		t.Errorf("the job is %+v\n%s", j, r.text())
	}
	for _, e := range r.w.Log.Events() {
		if e.What == "write" && e.Token == 1 {
			t.Errorf("the dead write: %+v", e)
		}
	}
}

// TestAClientThatDiesEndsItsTransaction: its connection breaks, and who waits for
// the row is let in.
func TestAClientThatDiesEndsItsTransaction(t *testing.T) {
	r := newRig(t, Locking{})
	a, m := r.worker("A", WorkerConfig{InTx: 5 * time.Second})
	a.Start()
	r.at(time.Second, func() {
		m.Crash()
		delete(r.lock.held, "job")
	})
	b, _ := r.worker("B", WorkerConfig{InTx: 10 * time.Millisecond})
	r.at(500*time.Millisecond, func() { r.table.Raise(b.m, "job", fence.Grant{Token: 2, Nonce: "b"}, func(Progress, error) {}) })
	r.run(2 * time.Second)
	r.expect("B", "raise-waits", 1)
	if e := r.last("B", "raised"); e.T != time.Second || r.table.Blocked != 500*time.Millisecond {
		t.Errorf("B raised at %v, raises were blocked for %v", e.T, r.table.Blocked)
	}
}

// TestARaiseThatAsksAgainWaitsOnce.
func TestARaiseThatAsksAgainWaitsOnce(t *testing.T) {
	r := newRig(t, Locking{IdleLimit: true})
	a, m := r.worker("A", WorkerConfig{InTx: time.Second})
	a.Start()
	r.at(200*time.Millisecond, func() { m.Pause(20 * time.Second) })
	r.at(9*time.Second, func() { delete(r.lock.held, "job") })
	b, _ := r.worker("B", WorkerConfig{InTx: 10 * time.Millisecond, Retry: 500 * time.Millisecond})
	r.at(time.Second, func() {
		for range 3 {
			r.table.Raise(b.m, "job", fence.Grant{Token: 2, Nonce: "b"}, func(Progress, error) {})
		}
	})
	r.run(30 * time.Second)
	r.expect("B", "raise-waits", 1)
	r.expect("store", "tx-ended", 1)
	if e := r.last("A", "write-refused"); e.Why != errServerEnded.Error() {
		t.Errorf("A's commit after the server had ended its transaction: %+v", e)
	}
	if j := r.table.Table.Read("job"); j.Charged() != 0 {
		t.Errorf("something of it was kept: %+v", j)
	}
}

func TestAHolderAnswersEachRequestOnce(t *testing.T) {
	r := newRig(t, Locking{})
	m := r.machine("A")
	h := NewHolder(r.s, m, protocol.Config{Name: "x", Prefix: "A", Times: r.s.Times})
	granted, ended := 0, 0
	h.OnGranted = func(authority.Grant) { granted++ }
	h.OnEnded = func(protocol.End) { ended++ }
	r.w.Net.Link(m, r.lock.m).Twice = 1_000_000
	r.w.Net.Link(r.lock.m, m).Twice = 1_000_000
	h.Start()
	r.run(4 * time.Second)
	if granted != 1 || !h.Holding() || h.Stop() != h.clock.Now().Add(7*time.Second) { // renewed at 3
		t.Errorf("granted %d times, holding %v, stop in %v", granted, h.Holding(), h.Stop().Sub(h.clock.Now()))
	}
	h.Cancel(errors.New("enough"))
	h.Release()
	h.Release()
	r.run(6 * time.Second)
	if ended != 1 || !h.Over() || len(r.lock.held) != 0 {
		t.Errorf("ended %d times, over %v, held %v", ended, h.Over(), r.lock.held)
	}
}

func TestAnAnswerAfterItsDeadlineIsNotHeard(t *testing.T) {
	r := newRig(t, Locking{})
	m := r.machine("A")
	h := NewHolder(r.s, m, protocol.Config{Name: "x", Prefix: "A", Times: r.s.Times, Wait: true})
	r.w.Net.Link(r.lock.m, m).Delay = 2 * time.Second // the time-out is 1.5
	h.Start()
	r.run(3900 * time.Millisecond)
	if h.Holding() {
		t.Error("a late answer was taken")
	}
	r.w.Net.Link(r.lock.m, m).Delay = 0
	r.run(8 * time.Second)
	if !h.Holding() || h.Grant().Token != 1 { // its own, by the nonce of the first try
		t.Errorf("holding %v with %v", h.Holding(), h.Grant())
	}
}

func TestErrorsAreShort(t *testing.T) {
	old := fence.Grant{Token: 1}
	for want, err := range map[string]error{
		"":                        nil,
		"not held any more":       authority.ErrNotHeld,
		"not held any more, 3 is": &authority.NotHeldError{Grant: old, State: authority.State{Grant: fence.Grant{Token: 3}}},
		"something else":          errors.New("something else"),
	} {
		if got := short(err); got != want {
			t.Errorf("%v: %q, not %q", err, got, want)
		}
	}
}

// TestAStoreSaysWhyItRefuses in the log's words.
func TestAStoreSaysWhyItRefuses(t *testing.T) {
	r := newRig(t, Locking{})
	m := r.machine("A")
	g := func(token fence.Token, nonce string) fence.Grant { return fence.Grant{Token: token, Nonce: nonce} }
	none := func(Progress, error) {}
	r.table.Write(m, Write{Name: "job", Grant: g(1, "a"), Chunk: 1}, none)
	r.table.Raise(m, "job", g(5, "a"), none)
	r.table.Mark(m, "job", g(5, "a"), func(error) {})
	r.table.Write(m, Write{Name: "job", Grant: g(5, "b"), Chunk: 1, Mark: "x"}, none)
	r.table.Write(m, Write{Name: "job", Grant: g(5, "a"), Chunk: 1, Seq: 7, Mark: "x"}, none)
	r.table.Write(m, Write{Name: "job", Grant: g(6, "c"), Chunk: 1, Mark: "x"}, none)
	r.table.Finish(m, "job", g(4, "a"), func(error) {})
	r.run(time.Millisecond)
	r.s.Weak = true
	r.table.Raise(m, "job", g(9, "w"), none)
	r.run(time.Second)
	var whys []string
	for _, e := range r.w.Log.Events() {
		if e.Mark == "refused" {
			whys = append(whys, e.Why)
		}
	}
	want := []string{
		`fence "job": ` + fence.ErrNoFence.Error(), "token 5 was admitted for another grant", "another transaction was committed under this grant",
		"the fence was not raised", "4 < 5", "weak-9: " + fence.ErrWeak.Error(),
	}
	for i := range max(len(want), len(whys)) {
		if i >= len(want) || i >= len(whys) || whys[i] != want[i] {
			t.Fatalf("refusals:\n%q, not\n%q", whys, want)
		}
	}
	if j := r.table.Table.Read("job"); j.Charged() != 0 || j.Fence != 5 {
		t.Errorf("a refused write changed something: %+v", j)
	}
}

// TestWithoutALockServiceEverybodyIsLetIn.
func TestWithoutALockServiceEverybodyIsLetIn(t *testing.T) {
	r := newRig(t, Locking{})
	r.s.Lock = &NoLock{}
	r.s.Without = protocol.RuleFence
	r.table = NewTable(r.s, r.w.Machine("free"), store.NewTable(2, store.Off{Fence: true}), 10)
	r.s.Store = r.table
	for _, name := range []string{"A", "B"} {
		w, _ := r.worker(name, WorkerConfig{})
		w.Start()
	}
	r.run(10 * time.Second)
	if j := r.table.Table.Read("job"); j.Twice() == 0 {
		t.Errorf("two who are let in at once: %+v", j)
	}
}

// TestAMarkerOfItsOwnComesAfterTheRaise, where the rule is left out.
func TestAMarkerOfItsOwnComesAfterTheRaise(t *testing.T) {
	r := newRig(t, Locking{})
	r.s.Without = protocol.RuleMarkerWithRaise
	r.table = NewTable(r.s, r.w.Machine("loose"), store.NewTable(2, store.Off{Marker: true}), 10)
	r.s.Store = r.table
	w, _ := r.worker("A", WorkerConfig{MarkAfter: time.Second})
	w.Start()
	r.run(500 * time.Millisecond)
	if len(r.table.Claims()) != 0 {
		t.Error("the claim is in the index before its marker")
	}
	r.run(1100 * time.Millisecond)
	if len(r.table.Claims()) != 1 {
		t.Error("the marker is not in the index")
	}
	r.run(20 * time.Second)
	if j := r.table.Table.Read("job"); j.State != fence.Done || j.Twice() != 0 {
		t.Errorf("the job is %+v", j)
	}
}

// TestALostCommitToTheManifestIsFoundInIt, and the job goes on to its end.
func TestALostCommitToTheManifestIsFoundInIt(t *testing.T) {
	r := newRig(t, Locking{})
	b := NewBucket(r.s, r.w.Machine("bucket"), 3, 10)
	r.s.Store = b
	w, _ := r.worker("A", WorkerConfig{Retry: 300 * time.Millisecond})
	r.at(800*time.Millisecond, func() { w.LoseAnswer("write") })
	w.Start()
	r.run(20 * time.Second)
	if j := b.Job("job"); j.Charged() != 3 || !w.Done() {
		t.Errorf("the manifest says %+v; done %v", j, w.Done())
	}
	r.expect("A", "answer-lost", 1)
	r.expect("A", "settled", 1)
	r.expect("A", "done", 1)
}
