package actor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

func grant(token fence.Token, nonce string) fence.Grant {
	return fence.Grant{Token: token, Nonce: nonce}
}

func TestAFlagIsFlippedOnceForANonce(t *testing.T) {
	r := newRig(t, Locking{})
	f := NewFlag(r.s, r.w.Machine("flag"))
	first := f.flip("A", "n1")
	if again := f.flip("A", "n1"); again != first || first.Token != 1 {
		t.Errorf("one nonce, two flips: %v and %v", first, again)
	}
	if next := f.flip("B", "n2"); next.Token != 2 || f.who != "B" {
		t.Errorf("the next flip: %v for %s", next, f.who)
	}
}

func (r *rig) writer(name string, f *Flag, wait time.Duration) *Writer {
	return NewWriter(r.s, r.machine(name), f, WriterConfig{Name: "job", Times: r.s.Times, Refresh: time.Second, Every: time.Second, Wait: wait})
}

// TestAWriterStopsWhenTheFlagNamesAnother, at its next reading of the flag; the
// store refuses what it still has under way.
func TestAWriterStopsWhenTheFlagNamesAnother(t *testing.T) {
	r := newRig(t, Locking{})
	f := NewFlag(r.s, r.w.Machine("flag"))
	a, b := r.writer("A", f, 0), r.writer("B", f, 15*time.Second)
	a.Start()
	r.at(2500*time.Millisecond, b.Promote)
	r.run(18900 * time.Millisecond)
	if e := r.last("A", "stops-writing"); e.T != 3*time.Second || e.Why != "the flag names another Region" {
		t.Errorf("A stops at %v: %s", e.T, e.Why)
	}
	if e := r.last("B", "may-write"); e.T != 17500*time.Millisecond || e.Epoch != 2 {
		t.Errorf("B may write at %v with %d", e.T, e.Epoch)
	}
	if r.count("A", "write-refused")+r.count("B", "write-refused") != 0 || r.count("B", "write") == 0 {
		t.Errorf("B wrote %d times; refused: %s", r.count("B", "write"), r.text())
	}
}

// TestACrashOfTheNewWriterRestartsItsWait.
func TestACrashOfTheNewWriterRestartsItsWait(t *testing.T) {
	r := newRig(t, Locking{})
	f := NewFlag(r.s, r.w.Machine("flag"))
	b := r.writer("B", f, 15*time.Second)
	b.Promote()
	r.at(10*time.Second, b.m.Crash)
	r.at(12*time.Second, b.m.Restart)
	r.run(40 * time.Second)
	if e := r.last("B", "may-write"); r.count("B", "may-write") != 1 || e.T != 27*time.Second {
		t.Errorf("it may write %d times, at %v", r.count("B", "may-write"), e.T)
	}
}

// TestAFlagWithoutAnAnswerIsAskedAgain, under the nonce of then.
func TestAFlagWithoutAnAnswerIsAskedAgain(t *testing.T) {
	r := newRig(t, Locking{})
	f := NewFlag(r.s, r.w.Machine("flag"))
	b := r.writer("B", f, 15*time.Second)
	r.w.Net.Cut(f.m, b.m)
	b.Promote()
	r.at(10*time.Second, r.w.Net.Heal)
	r.run(40 * time.Second)
	if r.count("B", "may-write") != 1 || f.grant.Token != 1 {
		t.Errorf("it may write %d times; the flag was flipped %d times", r.count("B", "may-write"), f.grant.Token)
	}
	if e := r.last("B", "may-write"); e.T < 25*time.Second {
		t.Errorf("it may write at %v: the wait counts from the answer", e.T)
	}
}

func (r *rig) sweeper() *Sweeper {
	s := NewSweeper(r.s, r.machine("S"), r.table, protocol.SweeperConfig{Every: 10 * time.Second, Again: 5 * time.Second, Longest: r.s.Times.Length})
	s.Held = func(name string) bool { _, held := r.lock.held[name]; return held }
	return s
}

// TestASweeperThatCannotAskGivesNothingBack.
func TestASweeperThatCannotAskGivesNothingBack(t *testing.T) {
	r := newRig(t, Locking{})
	r.table.Raise(r.machine("A"), "job", grant(1, "a"), func(Progress, error) {})
	s := r.sweeper()
	s.Start()
	r.lock.deaf = true
	r.run(65 * time.Second)
	if s.Requeues != 0 || r.count("S", "sweeper-brakes") == 0 {
		t.Errorf("%d given back, braked %d times", s.Requeues, r.count("S", "sweeper-brakes"))
	}
	r.lock.deaf = false
	r.run(120 * time.Second)
	if s.Requeues != 1 {
		t.Errorf("%d given back once it could ask", s.Requeues)
	}
	r.expect("S", "sees-orphan", 1)
}

// TestASweepOfARowThatChangedIsRefused: a new holder raises while the write is
// under way.
func TestASweepOfARowThatChangedIsRefused(t *testing.T) {
	r := newRig(t, Locking{})
	m := r.machine("A")
	r.table.Raise(m, "job", grant(1, "a"), func(Progress, error) {})
	s := r.sweeper()
	s.Start()
	r.w.Net.Link(r.lock.m, s.m).Delay = time.Second // the look of 10 is answered at 11
	r.at(10500*time.Millisecond, func() { r.w.Net.Link(s.m, r.table.Machine()).Delay = 3 * time.Second })
	r.at(12*time.Second, func() { r.table.Raise(m, "job", grant(2, "b"), func(Progress, error) {}) })
	r.run(20 * time.Second)
	r.expect("S", "requeue-refused", 1)
	if j := r.table.Table.Read("job"); s.Requeues != 0 || j.State != fence.Running || j.Owner != 2 {
		t.Errorf("%d given back; the row is %+v", s.Requeues, j)
	}
}

func (r *rig) observer(name string, i *Item) *Observer {
	return NewObserver(r.s, r.machine(name), i, protocol.ObserverConfig{
		Config: protocol.Config{Name: "item", Times: r.s.Times, Wait: true}, Holder: name, Poll: time.Second,
	})
}

// TestALostSwapIsFoundByItsNonce.
func TestALostSwapIsFoundByItsNonce(t *testing.T) {
	r := newRig(t, Locking{})
	i := NewItem(r.s, r.w.Machine("items"), "item")
	o := r.observer("A", i)
	o.LoseAnswers = 1
	o.Start()
	r.run(5 * time.Second)
	if rec, _ := i.Record(); r.count("A", "granted") != 1 || o.Grant().Token != 1 || rec.Holder != "A" || !o.CheckNow() {
		t.Errorf("granted %d times, %v; the item is %+v", r.count("A", "granted"), o.Grant(), rec)
	}
	r.expect("A", "answer-lost", 1)
	o.Release()
	r.run(8 * time.Second)
	if rec, _ := i.Record(); rec.Holder != "" || rec.Grant.Token != 1 || o.CheckNow() {
		t.Errorf("after the release: %+v", rec)
	}
}

// TestASwapOnAnOldVersionChangesNothing.
func TestASwapOnAnOldVersionChangesNothing(t *testing.T) {
	r := newRig(t, Locking{})
	i := NewItem(r.s, r.w.Machine("items"), "item")
	m := r.machine("A")
	rec := protocol.Record{Holder: "A", Grant: grant(1, "a"), Write: "v1"}
	if _, err := i.swap(m, protocol.Swap{Record: rec}); err != nil {
		t.Fatal(err)
	}
	rec.Write, rec.Holder = "v2", "B"
	for _, old := range []string{"", "v0"} {
		if _, err := i.swap(m, protocol.Swap{Record: rec, If: old}); err != protocol.ErrConflict {
			t.Errorf("if %q: %v", old, err)
		}
	}
	if is, version := i.Record(); is.Holder != "A" || version != "v1" || i.Table() == nil || i.Machine().Name != "items" {
		t.Errorf("the item is %+v", is)
	}
}

// TestABucketNamesWhatCounts: a raise after a commit in between, an object that
// nobody names, a writer whose manifest is not the one that stands.
func TestABucketNamesWhatCounts(t *testing.T) {
	r := newRig(t, Locking{})
	m := r.machine("A")
	b := NewBucket(r.s, r.w.Machine("bucket"), 2, 10)
	var p Progress
	var err error
	keep := func(got Progress, e error) { p, err = got, e }
	do := func(what string, f func(), wantErr bool) {
		f()
		r.run(r.w.Now() + time.Second)
		if (err != nil) != wantErr {
			t.Errorf("%s: %v", what, err)
		}
	}
	do("A raises", func() { b.Raise(m, "job", grant(1, "a"), keep) }, false)
	old := p.ETag
	do("A writes chunk 1", func() { b.Write(m, Write{Name: "job", Grant: grant(1, "a"), Chunk: 1, Mark: "a1", ETag: old}, keep) }, false)
	do("B raises", func() { b.Raise(m, "job", grant(2, "b"), keep) }, false)
	if p.Next != 2 {
		t.Errorf("B goes on with chunk %d", p.Next)
	}
	now := p.ETag
	do("A writes chunk 2 on the manifest of then", func() { b.Write(m, Write{Name: "job", Grant: grant(1, "a"), Chunk: 2, Mark: "a2", ETag: old}, keep) }, true)
	do("A raises again", func() { b.Raise(m, "job", grant(1, "a"), keep) }, true)
	if j := b.Job("job"); j.Charged() != 1 || j.Fence != 2 || len(b.Objects().Keys()) != 3 {
		t.Errorf("the manifest says %+v; objects %v", j, b.Objects().Keys())
	}
	do("B writes chunk 2", func() { b.Write(m, Write{Name: "job", Grant: grant(2, "b"), Chunk: 2, Mark: "b2", ETag: now}, keep) }, false)
	do("a plain read", func() { b.Read(m, "job", func(got Progress) { p = got }) }, false)
	if p.Next != 0 || b.Job("job").State != fence.Done {
		t.Errorf("at the end: %+v", p)
	}
}

func TestACandidateThatHasNotBegunHasNothingToResign(t *testing.T) {
	r := newRig(t, Locking{})
	c := NewCandidate(r.s, r.machine("A"), "job", "A")
	c.Resign()
	c.Pass("B")
	if !c.Leading().IsZero() || len(r.w.Log.Events()) != 0 {
		t.Errorf("leading %v: %s", c.Leading(), r.text())
	}
}

func TestATakerHoldsWhatItHasTaken(t *testing.T) {
	r := newRig(t, Locking{})
	a := NewTaker(r.s, r.machine("A"), []string{"x", "y"}, 2*time.Second)
	b := NewTaker(r.s, r.machine("B"), []string{"x", "y"}, 2*time.Second)
	a.Start()
	b.Start()
	r.run(time.Second)
	if a.Held() != 2 || b.Held() != 0 {
		t.Errorf("A holds %d, B %d", a.Held(), b.Held())
	}
	r.run(10 * time.Second)
	if !a.Done() || !b.Done() || len(r.lock.held) != 0 {
		t.Errorf("done: %v, %v; held %v", a.Done(), b.Done(), r.lock.held)
	}
}

// TestACrowdComesBackWhenItLosesItsLeases.
func TestACrowdComesBackWhenItLosesItsLeases(t *testing.T) {
	r := newRig(t, Locking{})
	c := NewCrowd(r.s, r.machine("crowd"), r.table, 20)
	c.Start()
	r.at(5*time.Second, func() { r.lock.deaf = true })
	r.at(20*time.Second, func() { clear(r.lock.held); r.lock.deaf = false })
	r.run(40 * time.Second)
	if c.Losses() != 20 || c.Holding() != 20 || len(r.table.Claims()) != 20 {
		t.Errorf("%d losses, %d hold, %d claims", c.Losses(), c.Holding(), len(r.table.Claims()))
	}
}

func (r *rig) payer(name string, rec *store.Records, bank *store.Bank) *Payer {
	return NewPayer(r.s, r.machine(name), r.w.Find("store"), rec, bank, PayerConfig{Job: "job", Every: time.Second, Call: 100 * time.Millisecond})
}

// TestAPayerThatWasSucceededIsRefused, and a request that comes twice pays once
// at a bank that takes keys.
func TestAPayerThatWasSucceededIsRefused(t *testing.T) {
	r := newRig(t, Locking{})
	rec, bank := store.NewRecords(4), store.NewBank(4, true)
	a, b := r.payer("A", rec, bank), r.payer("B", rec, bank)
	for _, p := range []*Payer{a, b} {
		r.w.Net.Link(p.m, p.at).Twice = 1_000_000
		r.w.Net.Link(p.at, p.m).Twice = 1_000_000
	}
	a.Start()
	r.at(1250*time.Millisecond, func() { a.m.Pause(2 * time.Second) }) // before it asks the bank for 2
	r.at(1500*time.Millisecond, func() { delete(r.lock.held, "job"); b.Start() })
	r.run(20 * time.Second)
	if paid, twice, missing := bank.Count(); paid != 4 || twice != 0 || missing != 0 {
		t.Errorf("%d paid, %d twice, %d missing\n%s", paid, twice, missing, r.text())
	}
	if r.count("A", "write-refused") == 0 {
		t.Errorf("A went on beside B: %s", r.text())
	}
}

// TestAWriterIsRefusedBelowTheReaders' mark, already at its raise.
func TestAWriterIsRefusedBelowTheReadersMark(t *testing.T) {
	r := newRig(t, Locking{})
	shelf := NewShelf(r.s, r.w.Machine("shelf"), "pages", store.NewPages(store.TwoMarks))
	w := NewBook(r.s, r.machine("W"), shelf, BookConfig{Key: "pages", Writes: true, RaiseAfter: 3 * time.Second, Every: time.Second})
	reader := NewBook(r.s, r.machine("R"), shelf, BookConfig{Key: "pages/R", Every: time.Second, Pages: 2})
	w.Start()
	r.at(time.Second, reader.Start)
	r.run(10 * time.Second)
	r.expect("W", "raised-to-write-refused", 1)
	if !reader.Finished || reader.Torn || len(r.lock.held) != 0 {
		t.Errorf("finished %v, torn %v, held %v", reader.Finished, reader.Torn, r.lock.held)
	}
}

// TestACandidateLeadsOneTermAtATime, also where its work is slow to return.
func TestACandidateLeadsOneTermAtATime(t *testing.T) {
	for _, early := range []bool{false, true} {
		r := newRig(t, Locking{})
		l := &lineLock{handLock: r.lock}
		r.s.Lock = l
		c := NewCandidate(r.s, r.machine("A"), "job", "A")
		c.Loops, c.Slow, c.Early = true, 5*time.Second, early
		c.Start()
		r.at(1900*time.Millisecond, func() { r.lock.deaf = true })
		r.at(9*time.Second, func() { r.lock.deaf = false; clear(r.lock.held) })
		r.run(30 * time.Second)
		if most := map[bool]int{false: 1, true: 2}[early]; c.Most != most || r.count("A", "leads") != 2 {
			t.Errorf("early %v: %d terms at once, %d in all\n%s", early, c.Most, r.count("A", "leads"), r.text())
		}
	}
}

// lineLock is a line with one place in it.
type lineLock struct{ *handLock }

func (l *lineLock) Call(from *world.Machine, q Request, answer func(protocol.Answer)) {
	if q.Op != protocol.OpList {
		l.handLock.Call(from, q, answer)
		return
	}
	l.w.Net.Call(from, l.m, func(back func(func())) {
		var list protocol.Listed
		for name, g := range l.held {
			list.Keys = append(list.Keys, protocol.Place{Key: name, Grant: g.Grant, Token: g.Token})
		}
		if !l.deaf {
			back(func() { answer(protocol.Answer{List: list}) })
		}
	})
}

func (l *lineLock) Watch(*world.Machine, protocol.Watch, func()) {}

// TestALedgerAnswersAsATableDoes.
func TestALedgerAnswersAsATableDoes(t *testing.T) {
	r := newRig(t, Locking{})
	m := r.machine("A")
	for _, s := range []Resource{r.table, NewLedger(r.s, r.w.Machine("items"), store.NewLedger(5, store.Off{}), 10)} {
		var got []string
		note := func(what string, err error) { got = append(got, fmt.Sprint(what, " ", err == nil)) }
		steps := []func(){
			func() { s.Raise(m, "job", grant(3, "a"), func(_ Progress, err error) { note("raise", err) }) },
			func() { s.Mark(m, "job", grant(3, "a"), func(err error) { note("mark", err) }) },
			func() {
				s.Write(m, Write{Name: "job", Grant: grant(3, "a"), Chunk: 1, Mark: "1"}, func(p Progress, err error) { note(fmt.Sprint("write, next ", p.Next), err) })
			},
			func() {
				s.Write(m, Write{Name: "job", Grant: grant(2, "b"), Chunk: 1, Mark: "2"}, func(_ Progress, err error) { note("zombie", err) })
			},
			func() { s.Read(m, "job", func(p Progress) { note(fmt.Sprint("read ", p.Next, p.Fence, p.Seq), nil) }) },
			func() { s.Finish(m, "job", grant(3, "a"), func(err error) { note("finish", err) }) },
		}
		for _, step := range steps {
			step()
			r.run(r.w.Now() + time.Second)
		}
		want := "[raise true mark true write, next 2 true zombie false read 2 3 1 true finish true]"
		if fmt.Sprint(got) != want {
			t.Errorf("%T: %v, not %v", s, got, want)
		}
	}
}
