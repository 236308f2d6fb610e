package billing

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// A double bill, a lost invoice and a wrong amount each show in the count: the
// store has no key that would hide them.
func TestVerdictCountsEveryInvoice(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := Prepare(ctx, path, 4, 5); err != nil {
		t.Fatal(err)
	}
	db, err := OpenDB(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &Store{DB: db}
	bill := func(from, to int) {
		t.Helper()
		if _, err := db.Exec(`INSERT INTO charges SELECT id, cents, 'A', 1 FROM invoices WHERE id BETWEEN ? AND ?`, from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		do   func()
		want Count
		ok   bool
	}{
		{func() {}, Count{Never: 20}, false},
		{func() { bill(1, 20) }, Count{Once: 20}, true},
		{func() { bill(6, 10) }, Count{Once: 15, Twice: 5}, false},
		{func() { bill(10, 10) }, Count{Once: 15, Twice: 4, More: 1}, false},
		{func() { db.Exec(`DELETE FROM charges WHERE invoice = 3`) }, Count{Once: 14, Twice: 4, More: 1, Never: 1}, false},
		{func() { db.Exec(`INSERT INTO charges VALUES (3, 1, 'A', 1), (99, 5, 'A', 1)`) }, Count{Once: 15, Twice: 4, More: 1, Wrong: 2}, false},
	} {
		step.do()
		got, err := s.Count(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got != step.want || got.OK() != step.ok {
			t.Errorf("counted %+v (OK %v), want %+v (OK %v)", got, got.OK(), step.want, step.ok)
		}
	}
}

func TestVerdictIsOneLine(t *testing.T) {
	for want, c := range map[string]Count{
		"50,000 charged once, 0 twice, 0 never":                                        {Once: 50000},
		"45,000 charged once, 5,000 twice, 0 never":                                    {Once: 45000, Twice: 5000},
		"999 charged once, 0 twice, 1,234,567 never":                                   {Once: 999, Never: 1234567},
		"0 charged once, 0 twice, 0 never, 1 three times or more, 2 charges are wrong": {More: 1, Wrong: 2},
	} {
		if got := c.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A chunk's charges and the mark that it is done are one transaction: after a
// rollback neither is there.
func TestChunkAndProgressGoTogether(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "store.db")
	if err := Prepare(ctx, path, 3, 7); err != nil {
		t.Fatal(err)
	}
	db, err := OpenDB(path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &Store{DB: db}
	for _, commit := range []bool{false, true} {
		charges, err := s.Build(ctx, 1)
		if err != nil || len(charges) != 7 {
			t.Fatalf("built %d charges (%v), want 7", len(charges), err)
		}
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		halves := 0
		if err := s.Bill(ctx, tx, "A", 1, 1, charges, func() { halves++ }); err != nil {
			t.Fatal(err)
		}
		want, once := 0, 0
		if commit {
			want, once, err = 1, 7, tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
		done, chunks, err := s.Progress(ctx)
		if err != nil || done != want || chunks != 3 || halves != 1 {
			t.Errorf("after commit=%v: %d of %d chunks done, %d half-way calls (%v)", commit, done, chunks, halves, err)
		}
		if c, err := s.Count(ctx); err != nil || c.Once != once || c.Twice != 0 {
			t.Errorf("after commit=%v: %v (%v)", commit, c, err)
		}
	}
}
