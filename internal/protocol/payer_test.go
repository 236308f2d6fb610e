package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stint-dev/stint/fence"
	"pgregory.net/rapid"
)

var payGrant = fence.Grant{Token: 3, Nonce: "b-1"}

func payer(c PayerConfig) *Payer {
	c.Key, c.Grant, c.Stop, c.Nonce = "job/2", payGrant, at(8*sec), "b1"
	return NewPayer(c)
}

// notedPayer has found a record, and has noted PENDING.
func notedPayer(t *testing.T, c PayerConfig, seen Receipt) *Payer {
	t.Helper()
	p := payer(c)
	p.Step(0, Start{})
	n, ok := find[Note](p.Step(0, Fetched{Try: 1, Receipt: seen}))
	if !ok || n.Receipt.State != PayPending || n.If != seen || n.Grant != payGrant {
		t.Fatalf("found %v: %v", seen, n)
	}
	if c, ok := find[Call](p.Step(0, Noted{Try: 2})); !ok || c.Key != "job/2" {
		t.Fatal("noted, and no call")
	}
	return p
}

var (
	older = Receipt{State: PayPending, Grant: fence.Grant{Token: 1, Nonce: "a-1"}, Nonce: "a1"}
	newer = Receipt{State: PayPending, Grant: fence.Grant{Token: 5, Nonce: "c-1"}, Nonce: "c1"}
	other = Receipt{State: PayPending, Grant: payGrant, Nonce: "b2"} // another machine of this holder
)

// TestWhatAPendingRecordMeans: of an older token, or of another machine under the
// same one, it means that nobody knows.
func TestWhatAPendingRecordMeans(t *testing.T) {
	for _, c := range []struct {
		cfg   PayerConfig
		seen  Receipt
		means PayState
		note  PayState
	}{
		{PayerConfig{TakesKeys: true}, older, PayPending, PayPending},
		{PayerConfig{TakesKeys: true}, other, PayPending, PayPending},
		{PayerConfig{}, older, PayUnknown, PayUnknown},
		{PayerConfig{}, other, PayUnknown, PayUnknown},
		{PayerConfig{Without: PayTakesKey}, older, PayPending, PayPending},
		{PayerConfig{Without: PayAnswered}, older, PayDone, PayDone},
	} {
		p := payer(c.cfg)
		p.Step(0, Start{})
		out := p.Step(0, Fetched{Try: 1, Receipt: c.seen})
		f, ok := find[Found](out)
		n, _ := find[Note](out)
		if !ok || f.Means != c.means || n.Receipt.State != c.note || has[Call](out) {
			t.Errorf("%+v, %v: %v", c.cfg, c.seen, out)
		}
	}
	p := payer(PayerConfig{TakesKeys: true})
	p.Step(0, Start{})
	e, ok := find[Closed](p.Step(0, Fetched{Try: 1, Receipt: newer}))
	if !ok || !errors.Is(e.Err, fence.ErrStale) {
		t.Errorf("PENDING of a later holder: %v", e)
	}
}

// TestWhatIsSettledIsNotDoneAgain, nor touched.
func TestWhatIsSettledIsNotDoneAgain(t *testing.T) {
	for _, state := range []PayState{PayDone, PayUnknown} {
		p := payer(PayerConfig{TakesKeys: true})
		p.Step(0, Start{})
		out := p.Step(0, Fetched{Try: 1, Receipt: Receipt{State: state, Grant: older.Grant, Result: "r"}})
		e, ok := find[Closed](out)
		if !ok || e.State != state || !e.Before || e.Result != "r" || has[Note](out) || has[Call](out) {
			t.Errorf("%s: %v", state, out)
		}
	}
}

// TestARefusedNoteBeginsNothing: the fence has a later token.
func TestARefusedNoteBeginsNothing(t *testing.T) {
	p := payer(PayerConfig{})
	p.Step(0, Start{})
	p.Step(0, Fetched{Try: 1})
	out := p.Step(0, Noted{Try: 2, Err: &fence.StaleError{Presented: 3, Fence: 5}})
	if e, ok := find[Closed](out); !ok || e.State != NotBegun || !errors.Is(e.Err, fence.ErrStale) || has[Call](out) {
		t.Errorf("%v", out)
	}
}

// TestWhatTheRemoteSideAnswers goes into the record, after the stop time too.
func TestWhatTheRemoteSideAnswers(t *testing.T) {
	no := fmt.Errorf("no money: %w", ErrNotDone)
	for _, c := range []struct {
		keys  bool
		seen  Receipt
		err   error
		note  PayState // NotBegun: the record is taken back
		notes bool
	}{
		{false, Receipt{}, nil, PayDone, true},
		{true, older, nil, PayDone, true},
		{false, Receipt{}, no, NotBegun, true},
		{true, older, no, PayPending, false}, // the older one's request may still come
		{false, Receipt{}, errLost, PayUnknown, true},
		{true, Receipt{}, errLost, PayPending, false}, // it is asked again
	} {
		p := notedPayer(t, PayerConfig{TakesKeys: c.keys}, c.seen)
		out := p.Step(at(9*sec), Called{Try: 3, Result: "paid", Err: c.err})
		n, notes := find[Note](out)
		if notes != c.notes || notes && n.Receipt.State != c.note {
			t.Errorf("%+v: %v", c, out)
			continue
		}
		if c.err == nil && n.Receipt.Result != "paid" {
			t.Errorf("the answer is not kept: %+v", n.Receipt)
		}
	}
}

// TestNoCallIsBegunAfterTheStopTime, and a record that nobody has acted on is
// taken back.
func TestNoCallIsBegunAfterTheStopTime(t *testing.T) {
	p := payer(PayerConfig{})
	p.Step(0, Start{})
	p.Step(0, Fetched{Try: 1})
	out := p.Step(at(8*sec), Noted{Try: 2})
	n, ok := find[Note](out)
	if !ok || n.Receipt != (Receipt{}) || n.If.State != PayPending || has[Call](out) {
		t.Fatalf("at the stop time: %v", out)
	}
	e, ok := find[Closed](p.Step(at(8*sec), Noted{Try: 3}))
	if !ok || e.State != NotBegun || !errors.Is(e.Err, ErrLeaseOver) {
		t.Errorf("closed: %v", e)
	}

	p = payer(PayerConfig{})
	p.Step(at(9*sec), Extended{at(20 * sec)})
	p.Step(at(9*sec), Extended{at(10 * sec)}) // never back
	if out := p.Step(at(15*sec), Start{}); !has[Fetch](out) {
		t.Errorf("the lease was kept: %v", out)
	}

	p = notedPayer(t, PayerConfig{TakesKeys: true}, older)
	p.Step(at(sec), Called{Try: 3, Err: errLost})
	out = p.Step(at(8*sec), Tick{})
	if e, ok := find[Closed](out); !ok || e.State != PayPending || has[Call](out) {
		t.Errorf("a repetition at the stop time: %v", out)
	}
}

// TestALostNoteIsSettledByALook: the payer goes by what is there, never by what
// it has sent.
func TestALostNoteIsSettledByALook(t *testing.T) {
	lost := func() *Payer {
		p := payer(PayerConfig{})
		p.Step(0, Start{})
		p.Step(0, Fetched{Try: 1})
		p.Step(0, Noted{Try: 2, Err: errLost})
		if out := p.Step(at(ms(500)), Tick{}); !has[Fetch](out) {
			t.Fatalf("after a lost note: %v", out)
		}
		return p
	}
	mine := Receipt{State: PayPending, Grant: payGrant, Nonce: "b1"}
	if out := lost().Step(at(ms(500)), Fetched{Try: 3, Receipt: mine}); !has[Call](out) {
		t.Errorf("its own record: %v", out)
	}
	if out := lost().Step(at(ms(500)), Fetched{Try: 3}); !has[Note](out) || has[Call](out) {
		t.Errorf("no record: %v", out)
	}
	if out := lost().Step(at(ms(500)), Fetched{Try: 3, Receipt: other}); has[Call](out) {
		t.Errorf("another's record: %v", out)
	}
}

// TestThatItIsDoneIsNotedOverAnothersDoubt, but not over a later fence; without a
// store it is told all the same.
func TestThatItIsDoneIsNotedOverAnothersDoubt(t *testing.T) {
	p := notedPayer(t, PayerConfig{}, Receipt{})
	p.Step(0, Called{Try: 3})
	p.Step(0, Noted{Try: 4, Err: ErrConflict})
	unknown := Receipt{State: PayUnknown, Grant: payGrant, Nonce: "b2"}
	n, ok := find[Note](p.Step(0, Fetched{Try: 5, Receipt: unknown}))
	if !ok || n.If != unknown || n.Receipt.State != PayDone {
		t.Fatalf("over UNKNOWN: %v", n)
	}
	e, _ := find[Closed](p.Step(0, Noted{Try: 6, Err: &fence.StaleError{Presented: 3, Fence: 5}}))
	if e.State != PayDone || !errors.Is(e.Err, fence.ErrStale) {
		t.Errorf("refused: %v", e)
	}

	p = notedPayer(t, PayerConfig{}, Receipt{})
	p.Step(0, Called{Try: 3, Result: "paid"})
	now := Instant(0)
	for try := 4; now < at(60*sec); now, try = now.Add(500*ms(1)), try+1 {
		out := p.Step(now, Noted{Try: try, Err: errLost})
		out = append(out, p.Step(now, Fetched{Try: try, Err: errLost})...)
		out = append(out, p.Step(now.Add(ms(500)), Tick{})...)
		if e, ok := find[Closed](out); ok {
			if e.State != PayDone || e.Result != "paid" || e.Err == nil || now > at(20*sec) {
				t.Errorf("at %v: %v", now, e)
			}
			return
		}
	}
	t.Error("it never gives up")
}

// TestACancelledPayerSettlesWhatIsUnderWay.
func TestACancelledPayerSettlesWhatIsUnderWay(t *testing.T) {
	p := notedPayer(t, PayerConfig{}, Receipt{})
	if out := p.Step(0, Cancel{errors.New("shut down")}); has[Closed](out) {
		t.Fatalf("in the middle of a call: %v", out)
	}
	if n, ok := find[Note](p.Step(at(sec), Called{Try: 3})); !ok || n.Receipt.State != PayDone {
		t.Error("what was done is not noted")
	}
	p = payer(PayerConfig{})
	p.Step(0, Start{})
	if e, ok := find[Closed](p.Step(0, Cancel{})); !ok || e.State != NotBegun || !errors.Is(e.Err, ErrLeaseOver) {
		t.Errorf("before anything: %v", e)
	}
}

func TestAPayersSettings(t *testing.T) {
	good := PayerConfig{Key: "k", Grant: payGrant, Nonce: "n"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []func(*PayerConfig){
		func(c *PayerConfig) { c.Key = "" }, func(c *PayerConfig) { c.Nonce = "" },
		func(c *PayerConfig) { c.Grant = fence.Grant{} }, func(c *PayerConfig) { c.Timeout = -1 },
	} {
		c := good
		bad(&c)
		if c.Check() == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestNothingIsPaidTwiceOrNotedInVain, in random worlds whose holders are paused,
// cut off and succeeded, at a bank that takes keys and at one that does not.
func TestNothingIsPaidTwiceOrNotedInVain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.Bool().Draw(t, "keys")
		if w := payWorld(rapid.Uint64().Draw(t, "seed"), keys, 0); w.wrong != "" {
			t.Fatal(w.story())
		}
	})
	noKeys := func(seed uint64, without PayerRules) *world { return payWorld(seed, false, without) }
	for _, without := range []PayerRules{PayTakesKey, PayAnswered} {
		seed, w := firstBroken(noKeys, without, 5000)
		if w == nil {
			t.Errorf("without rule %d no world breaks", without)
			continue
		}
		t.Logf("without rule %d, world %d breaks: %s", without, seed, w.wrong)
	}
}

func tapePayer(t *testing.T, tape *tape) {
	for _, keys := range []bool{true, false} {
		w := newWorld(1)
		s := newTill(w, keys)
		s.records["job/2"], s.paid["job/2"], s.fence = older, 1, 3
		s.asked["job/2"] = true
		p, who := payer(PayerConfig{TakesKeys: keys}), fmt.Sprint("payer, keys ", keys)
		queue := []Event{Start{}}
		for len(queue) > 0 {
			out := p.Step(0, queue[0])
			tape.record(0, who, queue[0], out)
			queue = queue[1:]
			for _, e := range out {
				switch e := e.(type) {
				case Fetch:
					queue = append(queue, Fetched{Try: e.Try, Receipt: s.records[e.Key]})
				case Note:
					queue = append(queue, Noted{Try: e.Try, Err: s.note(e)})
				case Call:
					queue = append(queue, Called{Try: e.Try, Err: s.pay(e.Key, "b")})
				}
			}
		}
		if w.wrong != "" {
			t.Error(w.wrong)
		}
	}
}
