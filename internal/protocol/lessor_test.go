package protocol

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// TestALeaseStartsAgainAtFullLengthUnderANewLeader: C renewed at 46.2, the leader
// dies at 47, the next one leads from 49.1.
func TestALeaseStartsAgainAtFullLengthUnderANewLeader(t *testing.T) {
	run := func(cfg LessorConfig) (deadline time.Duration, held bool) {
		s := newService(t, cfg)
		s.to(ms(40200))
		c := s.acquire("job", "c-1").Grant
		for _, at := range []int{43200, 46200} {
			s.to(ms(at))
			s.renew(c)
		}
		// The other nodes know the grant alone; a deadline is in one memory.
		n2, err := RestoreLessor(cfg, at(ms(40200)), s.l.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		s.l, s.timer = n2, 0
		s.to(ms(49100))
		s.promote()
		d, _ := s.l.Deadline("job")
		s.to(ms(51000))
		_, held = s.l.Deadline("job")
		return time.Duration(d), held
	}
	if d, held := run(LessorConfig{}); d != ms(59100) || !held {
		t.Errorf("deadline %v (held %v), want 59.1 s", d, held)
	}
	if d, _ := run(LessorConfig{Extra: sec}); d != ms(60100) {
		t.Errorf("deadline %v, want 60.1 s with an election time-out of 1 s on top", d)
	}
	// C's right lasts until 54.2.
	if d, held := run(LessorConfig{Without: RuleFullLength}); d != ms(50200) || held {
		t.Errorf("without full-length: deadline %v, held %v; want the grant's 50.2 s, and gone under C's hands", d, held)
	}
}

// TestARenewalClearsTheCheckpoint: checkpoint at 3.0 with 7 s left, renewal at
// 3.5, a new leader at 4.0. The holder's right lasts until 11.5.
func TestARenewalClearsTheCheckpoint(t *testing.T) {
	run := func(without Rules) Instant {
		s := newService(t, LessorConfig{Checkpoint: 3 * sec, Without: without})
		a := s.acquire("job", "a-1").Grant
		s.to(ms(3500))
		if r := s.renew(a); r.Err != nil {
			t.Fatal(r)
		}
		s.to(4 * sec)
		s.promote()
		d, _ := s.l.Deadline("job")
		return d
	}
	if d := run(0); d != at(14*sec) {
		t.Errorf("deadline %v, want the full length from 4 s on", d)
	}
	if d := run(RuleClearCheckpoint); d != at(11*sec) {
		t.Errorf("without the rule: deadline %v, want 11 s, before the holder's 11.5 s", d)
	}
}

// TestACheckpointUnderWayIsClearedToo: the checkpoint is proposed before the
// renewal but not in the log yet, so there is none to be seen.
func TestACheckpointUnderWayIsClearedToo(t *testing.T) {
	s := newService(t, LessorConfig{Checkpoint: 3 * sec})
	a := s.acquire("job", "a-1").Grant
	s.hold = true
	s.to(ms(3100))
	if r := s.renew(a); r.Err == nil {
		t.Fatalf("answered before its checkpoint was cleared: %v", r)
	}
	s.hold = false
	s.flush()
	if last := s.replies[len(s.replies)-1]; last.Op != OpRenew || last.Err != nil {
		t.Fatalf("last reply %v", last)
	}
	s.promote()
	s.wantDeadline("job", ms(13100))
	s.to(ms(6500)) // past the next checkpoint, of 7 s at 6.1
	s.promote()
	s.wantDeadline("job", ms(13500))
}

func TestACheckpointSavesALongWaitAfterALeaderIsLost(t *testing.T) {
	s := newService(t, LessorConfig{Checkpoint: 4 * sec})
	s.acquire("job", "a-1") // its holder dies at once
	s.to(9 * sec)           // checkpoints at 4 and 8, the last with 2 s left
	s.promote()
	s.wantDeadline("job", 11*sec)
}

// TestNoRenewalIsAnsweredOnceItsLeaseIsTakenAway: the deletion is in the log's
// way; a renewal that was answered meanwhile would promise a key that goes.
func TestNoRenewalIsAnsweredOnceItsLeaseIsTakenAway(t *testing.T) {
	s := newService(t, LessorConfig{})
	a := s.acquire("job", "a-1").Grant
	s.hold = true
	s.to(10 * sec)
	r := s.renew(a)
	if r.Err == nil || errors.Is(r.Err, authority.ErrNotHeld) {
		t.Fatalf("reply %v, want one that is not definite: the deletion may be lost", r)
	}
	s.to(ms(11500)) // it is proposed again
	if len(s.log) != 2 {
		t.Fatalf("%d proposals wait, want the same one twice", len(s.log))
	}
	s.hold = false
	s.flush()
	if r := s.renew(a); !errors.Is(r.Err, authority.ErrNotHeld) {
		t.Fatalf("reply %v after the deletion", r)
	}
	if s.l.Revision() != 2 {
		t.Fatalf("revision %d: a repeated expiry counts once", s.l.Revision())
	}
}

// TestAnOldLeadersExpiryIsIgnored: it was paused between its look at the
// deadline and its proposal, and another leader has renewed since.
func TestAnOldLeadersExpiryIsIgnored(t *testing.T) {
	s := newService(t, LessorConfig{})
	a := s.acquire("job", "a-1").Grant
	s.hold = true
	s.to(10 * sec)
	s.promote()
	s.hold = false
	s.flush() // in the entry of the next term
	if _, held := s.l.Deadline("job"); !held {
		t.Fatal("the key is gone")
	}
	if r := s.renew(a); r.Err != nil {
		t.Fatalf("renewed under the new leader: %v", r)
	}
	s.to(20 * sec)
	if _, held := s.l.Deadline("job"); held {
		t.Fatal("the new leader never expires it")
	}
}

// TestALeaseThatLivesSaysNothingOfItsKey: an operator deletes the key of a shared
// lease, and a rival creates it again.
func TestALeaseThatLivesSaysNothingOfItsKey(t *testing.T) {
	s := newService(t, LessorConfig{})
	s.ask(Ask{Op: OpGrant, Lease: 77, Length: 10 * sec})
	g := s.ask(Ask{Op: OpCreate, Lease: 77, Name: "job", Nonce: "a-1"}).Grant
	s.ask(Ask{Op: OpCreate, Lease: 77, Name: "other", Nonce: "a-2"})
	if r := s.renew(g); r.Err != nil || r.Lease != 77 {
		t.Fatalf("renewal by the key: %v", r)
	}
	if r := s.ask(Ask{Op: OpRelease, Name: "job", Grant: g.Grant}); r.Err != nil {
		t.Fatal(r)
	}
	s.acquire("job", "b-1")
	if r := s.ask(Ask{Op: OpRenew, Lease: 77}); r.Err != nil {
		t.Fatalf("the shared lease: %v", r)
	}
	var gone *authority.NotHeldError
	if r := s.renew(g); !errors.As(r.Err, &gone) || gone.State.Grant.Nonce != "b-1" {
		t.Fatalf("the key: %v, want not held, by b", r)
	}
	s.ask(Ask{Op: OpCreate, Lease: 77, Name: "third", Nonce: "a-3"})
	rev := s.l.Revision()
	if s.ask(Ask{Op: OpRevoke, Lease: 77}); s.l.Revision() != rev+1 || s.l.key("other") != nil || s.l.key("third") != nil {
		t.Fatalf("revision %d after %d: a lease takes all its keys along at one revision", s.l.Revision(), rev)
	}
}

func TestACreateIsForOneAndRepeatsForThatOne(t *testing.T) {
	s := newService(t, LessorConfig{})
	first := s.acquire("job", "a-1")
	if again := s.acquire("job", "a-1"); again.Grant != first.Grant || s.l.Revision() != 1 {
		t.Fatalf("again: %v at revision %d", again, s.l.Revision())
	}
	s.to(4 * sec)
	var held *authority.HeldError
	if r := s.acquire("job", "b-1"); !errors.As(r.Err, &held) || held.State.Grant != first.Grant.Grant || held.State.Left != 6*sec {
		t.Fatalf("b: %v", r)
	}
	if r := s.ask(Ask{Op: OpCreate, Lease: 5, Name: "x", Nonce: "c-1"}); !errors.Is(r.Err, authority.ErrNotHeld) {
		t.Fatalf("under a lease that is not there: %v", r)
	}
}

func TestAReleaseTakesAwayItsOwnGrantOnly(t *testing.T) {
	s := newService(t, LessorConfig{})
	a := s.acquire("job", "a-1").Grant
	s.to(10 * sec)
	b := s.acquire("job", "b-1").Grant
	if r := s.ask(Ask{Op: OpRelease, Name: "job", Grant: a.Grant}); !errors.Is(r.Err, authority.ErrNotHeld) {
		t.Fatalf("A's late release: %v", r)
	}
	if r := s.renew(b); r.Err != nil {
		t.Fatalf("B after it: %v", r)
	}
	// What a client without the rule asks for.
	if r := s.ask(Ask{Op: OpRelease, Name: "job"}); r.Err != nil {
		t.Fatal(r)
	}
	if r := s.renew(b); !errors.Is(r.Err, authority.ErrNotHeld) {
		t.Fatalf("B after a release of whatever is there: %v", r)
	}
}

// TestALeaderThatWasReplacedAnswersNothing: its majority does not confirm.
func TestALeaderThatWasReplacedAnswersNothing(t *testing.T) {
	s := newService(t, LessorConfig{})
	a := s.acquire("job", "a-1").Grant
	l := s.l
	now := at(3 * sec)
	for i, ask := range []Ask{
		{Op: OpRenew, Name: "job", Grant: a.Grant}, {Op: OpInspect, Name: "job"}, {Op: OpList, Name: ""},
		{Op: OpAcquire, Name: "new", Nonce: "b-1"}, {Op: OpRelease, Name: "job", Grant: a.Grant},
	} {
		ask.ID = uint64(1000 + i)
		if out := l.Step(now, ask); has[Reply](out) {
			t.Fatalf("%v: %v", ask.Op, out)
		}
	}
	out := l.Step(now, Demoted{})
	replies := 0
	for _, e := range out {
		if r, ok := e.(Reply); ok {
			replies++
			if r.Err == nil || errors.Is(r.Err, authority.ErrNotHeld) || errors.Is(r.Err, authority.ErrHeld) {
				t.Errorf("%v: the outcome is not known", r)
			}
		}
	}
	if replies != 5 {
		t.Fatalf("%d replies: %v", replies, out)
	}
	for i := range 5 {
		if out := l.Step(now, Confirmed{uint64(1000 + i)}); len(out) > 0 {
			t.Fatalf("confirmed too late: %v", out)
		}
	}
	out = l.Step(now, Ask{ID: 2000, Op: OpInspect, Name: "job"})
	if r, _ := find[Reply](out); !errors.Is(r.Err, ErrNotLeader{}) {
		t.Fatalf("asked again: %v", out)
	}
}

// TestARestoreJumpsOverForgottenTokens: C got 15, the backup is of revision 14.
func TestARestoreJumpsOverForgottenTokens(t *testing.T) {
	s := newService(t, LessorConfig{})
	s.others(13)
	s.acquire("elsewhere", "x-1")
	backup := s.l.Marshal()
	c := s.wantToken(s.acquire("job", "c-1"), 15)
	for without, want := range map[Rules]fence.Token{0: 1_000_015, RuleBump: 15} {
		l, err := RecoverLessor(LessorConfig{Without: without}, backup, 1_000_000, 15)
		if err != nil {
			t.Fatal(err)
		}
		s := &service{t: t, l: l}
		s.promote()
		if _, held := l.Deadline("elsewhere"); held {
			t.Error("a key came back from the backup, whose holder has long gone on")
		}
		if got := s.wantToken(s.acquire("job", "d-1"), want); without == RuleBump && got.Token != c.Token {
			t.Errorf("without bump the token is %d, want C's again", got.Token)
		}
	}
}

func TestASnapshotIsTheWholeState(t *testing.T) {
	s := newService(t, LessorConfig{})
	s.ask(Ask{Op: OpGrant, Lease: 3, Length: 5 * sec})
	for i := range 5 {
		s.ask(Ask{Op: OpCreate, Lease: 3, Name: fmt.Sprintf("e/%d", i), Nonce: fmt.Sprintf("n-%d", i), Holder: "web"})
		s.acquire(fmt.Sprintf("job%d", i), "a-1")
	}
	s.ask(Ask{Op: OpPass, Name: "e/0", Grant: s.l.key("e/0").grant, Key: "e/3"})
	if at := fence.Token(s.l.Revision()); s.l.Floor("e/4") != at || s.l.Floor("e/3") != at || s.l.Floor("job1") != 0 {
		t.Fatalf("the floors are %d, %d and %d; want %d for the election alone", s.l.Floor("e/4"), s.l.Floor("e/3"), s.l.Floor("job1"), at)
	}
	b := s.l.Marshal()
	l, err := RestoreLessor(LessorConfig{}, 0, b)
	if err != nil || string(l.Marshal()) != string(b) {
		t.Fatalf("restored: %v", err)
	}
	if got := l.list("e/"); fmt.Sprint(got) != fmt.Sprint(s.l.list("e/")) || got.Keys[0].Key != "e/3" {
		t.Fatalf("line %v", got)
	}
	for i := range b {
		if l, err := RestoreLessor(LessorConfig{}, 0, b[:i]); err == nil && string(l.Marshal()) != string(b[:i]) {
			t.Fatalf("%d of %d bytes were taken", i, len(b))
		}
	}
}

// TestTheLastCheckpointUnderWayCounts: the first of two is applied, the second
// still is on its way.
func TestTheLastCheckpointUnderWayCounts(t *testing.T) {
	s := newService(t, LessorConfig{Checkpoint: 3 * sec})
	a := s.acquire("job", "a-1").Grant
	s.hold = true
	s.to(6 * sec) // checkpoints at 3 and at 6
	s.step(Applied{Term: s.term, Command: Command{Op: CmdCheckpoint, Name: "job", Lease: s.log[0].Lease, By: s.log[0].By}})
	if r := s.renew(a); r.Err == nil {
		t.Fatalf("answered at once: %v", r)
	}
}

// TestOnlyTheFirstInLineHandsOverOrTakesANumber.
func TestOnlyTheFirstInLineHandsOverOrTakesANumber(t *testing.T) {
	s := newService(t, LessorConfig{})
	a, b := s.acquire("e/a", "a-1").Grant, s.acquire("e/b", "b-1").Grant
	s.acquire("e/c", "c-1")
	for _, ask := range []Ask{
		{Op: OpPass, Name: "e/b", Grant: b.Grant, Key: "e/c"},
		{Op: OpNumber, Name: "e/b", Grant: b.Grant},
		{Op: OpPass, Name: "e/a", Grant: b.Grant, Key: "e/c"},
		{Op: OpNumber, Name: "e/a", Grant: b.Grant},
	} {
		if r := s.ask(ask); !errors.Is(r.Err, authority.ErrNotHeld) || s.l.Revision() != 3 {
			t.Errorf("%v of %q by b: %v at revision %d", ask.Op, ask.Name, r, s.l.Revision())
		}
	}
	for _, heir := range []string{"e/a", "e/x", "f/c", "job"} {
		s.acquire("f/c", "c-2")
		s.acquire("job", "c-3")
		if r := s.ask(Ask{Op: OpPass, Name: "e/a", Grant: a.Grant, Key: heir}); !errors.Is(r.Err, authority.ErrInvalid) {
			t.Errorf("to %q: %v", heir, r)
		}
	}
	if r := s.ask(Ask{Op: OpNumber, Name: "e/a", Grant: a.Grant}); r.Err != nil || r.Grant.Token != 6 || r.Grant.Nonce != "a-1" {
		t.Errorf("a's number: %v", r)
	}
	if line := s.l.list("e/"); line.Floor != 6 || line.Keys[0].Token != 6 || line.Keys[0].Grant.Token != 1 {
		t.Errorf("line %+v", line)
	}
}
