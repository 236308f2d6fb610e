package store

import (
	"errors"
	"testing"

	"github.com/stint-dev/stint/fence"
)

// TestAReaderShutsOutWritersAndNoReader: two marks keep apart what one cannot.
func TestAReaderShutsOutWritersAndNoReader(t *testing.T) {
	p := NewPages(TwoMarks)
	for _, step := range []struct {
		what string
		do   func() error
		ok   bool
	}{
		{"writer 1 raises", func() error { return p.RaiseToWrite(1) }, true},
		{"writer 1 writes", func() error { _, err := p.Write(1); return err }, true},
		{"reader 3 raises", func() error { return p.RaiseToRead(3) }, true},
		{"reader 5 raises", func() error { return p.RaiseToRead(5) }, true},
		{"reader 3 reads beside reader 5", func() error { _, err := p.Read(3); return err }, true},
		{"writer 1 writes under the readers", func() error { _, err := p.Write(1); return err }, false},
		{"writer 4 raises below reader 5", func() error { return p.RaiseToWrite(4) }, false},
		{"writer 6 raises", func() error { return p.RaiseToWrite(6) }, true},
		{"reader 5 reads under writer 6", func() error { _, err := p.Read(5); return err }, false},
		{"reader 5 raises again", func() error { return p.RaiseToRead(5) }, false},
	} {
		if err := step.do(); (err == nil) != step.ok || err != nil && !errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: %v", step.what, err)
		}
	}
	if w, r := p.Marks(); w != 6 || r != 6 {
		t.Errorf("the marks are %d and %d", w, r)
	}
}

func TestOneMarkShutsOutAReaderAndNoneShutsOutNobody(t *testing.T) {
	one, none := NewPages(OneMark), NewPages(NoMark)
	for _, p := range []*Pages{one, none} {
		if errors.Join(p.RaiseToWrite(1), p.RaiseToRead(3), p.RaiseToRead(5)) != nil {
			t.Fatal("a raise in order is refused")
		}
	}
	if _, err := one.Read(3); err == nil {
		t.Error("with one mark, reader 3 goes on beside reader 5")
	}
	if v, err := none.Write(1); err != nil || v != 2 {
		t.Errorf("with no mark, the old writer is refused: %v", err)
	}
}

func TestARecordIsBehindTheFence(t *testing.T) {
	r := NewRecords(2)
	set := func(seen, to Record, token fence.Token) error {
		_, err := r.Set(1, seen, to, token)
		return err
	}
	pending, paid := Record{State: Pending, Nonce: "a"}, Record{State: Paid, Nonce: "a"}
	if err := errors.Join(r.Raise(1), set(Record{}, pending, 1), r.Raise(3)); err != nil {
		t.Fatal(err)
	}
	if err := set(pending, paid, 1); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the old holder's DONE: %v", err)
	}
	if err := set(pending, paid, 4); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a token that was never raised: %v", err)
	}
	if err := set(Record{}, paid, 3); !errors.Is(err, fence.ErrChanged) {
		t.Errorf("on a record that is not as it was seen: %v", err)
	}
	if err := set(Record{}, pending, 3); err != nil {
		t.Errorf("what is written already: %v", err)
	}
	if r.Get(1) != pending || r.Fence() != 3 {
		t.Errorf("the record is %v, the fence %d", r.Get(1), r.Fence())
	}
}

func TestABankThatTakesKeysPaysOnce(t *testing.T) {
	for _, keys := range []bool{true, false} {
		b := NewBank(2, keys)
		b.Pay(1, "job/1")
		times, now := b.Pay(1, "job/1")
		if now == keys || (times == 1) != keys {
			t.Errorf("keys %v: paid %d times, the second request paid: %v", keys, times, now)
		}
		paid, twice, missing := b.Count()
		if paid != 1 || missing != 1 || (twice == 0) != keys {
			t.Errorf("keys %v: %d paid, %d twice, %d missing", keys, paid, twice, missing)
		}
	}
}
