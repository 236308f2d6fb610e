package store

import (
	"errors"
	"testing"

	"github.com/stint-dev/stint/fence"
	"pgregory.net/rapid"
)

const job = "billing"

func grant(t fence.Token, nonce string) fence.Grant { return fence.Grant{Token: t, Nonce: nonce} }

func mustRaise(t *testing.T, table *Table, g fence.Grant) Job {
	t.Helper()
	before, err := table.Raise(0, job, g)
	if err != nil {
		t.Fatal(err)
	}
	return before
}

func TestALowerTokenIsRefusedAndChangesNothing(t *testing.T) {
	table := NewTable(3, Off{})
	mustRaise(t, table, grant(7, "a"))
	mustRaise(t, table, grant(12, "b"))
	before := table.Read(job)
	_, err := table.Write(job, Write{Grant: grant(7, "a"), Mark: "a/1", Chunk: 2})
	if !errors.Is(err, fence.ErrStale) {
		t.Fatalf("the write of 7 at fence 12: %v", err)
	}
	if _, err := table.Raise(0, job, grant(11, "c")); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("the raise of 11 at fence 12: %v", err)
	}
	after := table.Read(job)
	if after.Row != before.Row || after.Charged() != 0 {
		t.Fatalf("a refused write changed the row: %+v, was %+v", after, before)
	}
}

// TestEachRuleOfTheTableCanBeSwitchedOff shows what every rule keeps out: the
// same steps with the rule on and off.
func TestEachRuleOfTheTableCanBeSwitchedOff(t *testing.T) {
	write := func(table *Table, g fence.Grant, seq int64, mark string) error {
		_, err := table.Write(job, Write{Grant: g, Seq: seq, Mark: mark, Chunk: 1})
		return err
	}
	for _, c := range []struct {
		rule string
		off  Off
		do   func(*Table) error
		on   error // with the rule
		not  error // without it
	}{
		{"fence", Off{Fence: true}, func(table *Table) error {
			mustRaise(t, table, grant(12, "b"))
			return write(table, grant(7, "a"), 0, "a/1")
		}, fence.ErrStale, nil},
		{"equal", Off{Equal: true}, func(table *Table) error {
			mustRaise(t, table, grant(7, "a"))
			return write(table, grant(7, "a"), 0, "a/1")
		}, nil, fence.ErrStale},
		{"nonce", Off{Nonce: true}, func(table *Table) error {
			mustRaise(t, table, grant(15, "c"))
			return write(table, grant(15, "d"), 0, "d/1")
		}, fence.ErrRepeated, nil},
		{"sequence", Off{Sequence: true}, func(table *Table) error {
			mustRaise(t, table, grant(7, "a"))
			if err := write(table, grant(7, "a"), 0, "a/1"); err != nil {
				t.Fatal(err)
			}
			return write(table, grant(7, "a"), 0, "a/1")
		}, fence.ErrCommitted, nil},
		{"exact-owner", Off{ExactOwner: true}, func(table *Table) error {
			mustRaise(t, table, grant(7, "a"))
			seen := table.Read(job).Row
			mustRaise(t, table, grant(12, "b"))
			return table.Requeue(seen)
		}, fence.ErrChanged, nil},
	} {
		if err := c.do(NewTable(1, Off{})); !errors.Is(err, c.on) {
			t.Errorf("with %s: %v, want %v", c.rule, err, c.on)
		}
		if err := c.do(NewTable(1, c.off)); !errors.Is(err, c.not) {
			t.Errorf("without %s: %v, want %v", c.rule, err, c.not)
		}
	}
}

func TestNoClaimIsOutsideTheIndex(t *testing.T) {
	table := NewTable(1, Off{})
	mustRaise(t, table, grant(7, "a"))
	if claims := table.Claims(); len(claims) != 1 || claims[0].Owner != 7 {
		t.Fatalf("after the raise the index holds %v", claims)
	}
	late := NewTable(1, Off{Marker: true})
	mustRaise(t, late, grant(7, "a"))
	if claims := late.Claims(); len(claims) != 0 {
		t.Fatalf("without marker-with-raise the index holds %v already", claims)
	}
	if err := late.Mark(0, job, grant(7, "a")); err != nil || len(late.Claims()) != 1 {
		t.Fatalf("mark: %v, index %v", err, late.Claims())
	}
	if err := table.Finish(job, grant(7, "a")); err != nil || len(table.Claims()) != 0 || table.Read(job).Fence != 7 {
		t.Fatalf("finish: %v, row %+v", err, table.Read(job))
	}
}

func TestPrunedTokensStayRefused(t *testing.T) {
	table := NewTable(1, Off{})
	mustRaise(t, table, grant(7, "a"))
	if err := table.Finish(job, grant(7, "a")); err != nil {
		t.Fatal(err)
	}
	table.Bar("other", 20)
	if n := table.Prune(); n != 2 {
		t.Fatalf("pruned %d rows", n)
	}
	if _, err := table.Raise(0, job, grant(20, "x")); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("20 after the floor: %v", err)
	}
	if _, err := table.Raise(0, job, grant(21, "x")); err != nil {
		t.Fatalf("21, which the bar was to let in: %v", err)
	}
}

// TestTheTableDoesWhatTheFenceInMemoryDoes: the simulated table keeps the rules
// of the real one, step for step.
func TestTheTableDoesWhatTheFenceInMemoryDoes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		table, model := NewTable(4, Off{}), fence.NewMemory()
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			g := grant(fence.Token(rapid.IntRange(1, 5).Draw(r, "token")), rapid.SampledFrom([]string{"a", "b"}).Draw(r, "nonce"))
			var got, want error
			switch rapid.IntRange(0, 3).Draw(r, "step") {
			case 0:
				_, got = table.Raise(0, job, g)
				_, want = model.Raise(r.Context(), job, g)
			case 1:
				_, got = table.Write(job, Write{Grant: g, Seq: table.Read(job).Seq, Mark: "m", Chunk: 1})
				want = model.Do(r.Context(), fence.Claim{Name: job, Grant: g}, func() error { return nil })
			case 2:
				got = table.Finish(job, g)
				want = model.Finish(r.Context(), fence.Claim{Name: job, Grant: g})
			case 3:
				seen := fence.Row{Name: job, Owner: g.Token, Fence: g.Token, Nonce: g.Nonce}
				got, want = table.Requeue(seen), model.Requeue(r.Context(), seen)
			}
			for _, is := range []error{nil, fence.ErrStale, fence.ErrRepeated, fence.ErrNoFence, fence.ErrNotRaised, fence.ErrChanged} {
				if errors.Is(got, is) != errors.Is(want, is) {
					r.Fatalf("table: %v; memory: %v", got, want)
				}
			}
			row, _ := model.Row(r.Context(), job)
			mine := table.Read(job).Row
			if mine.Fence != row.Fence || mine.Nonce != row.Nonce || mine.State != row.State || mine.Owner != row.Owner || mine.Seq != row.Seq {
				r.Fatalf("table %+v, memory %+v", mine, row)
			}
		}
	})
}
