package sqlfunctions

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// previous is what {f}_raise gives.
func (s *store) previous(t *testing.T, g fence.Grant) (r fence.Row, err error) {
	t.Helper()
	q := "CALL stint_raise('billing', '" + g.String() + "')"
	if s.postgres() {
		q = "SELECT * FROM stint_raise('billing', '" + g.String() + "')"
	}
	rows, err := s.db.QueryContext(t.Context(), q)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	if !rows.Next() {
		return r, errors.Join(errors.New("no row"), rows.Err())
	}
	var since any
	err = rows.Scan(&r.Fence, &r.Nonce, &r.State, &r.Owner, &since, &r.Seq)
	if (since == nil) != (r.Fence == 0) {
		t.Errorf("claimed since %v, after %+v", since, r)
	}
	return r, err
}

func TestTheSQLFunctionsKeepTheSameRulesAsInTx(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		a, b := grant(7, "a"), grant(12, "b")
		for range 2 { // repeating it is harmless
			if r, err := s.previous(t, a); err != nil || r != (fence.Row{}) {
				t.Fatalf("the first raise gives %+v, %v", r, err)
			}
		}
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, a.String()), insert))
		// The same grant in Go: the claim that it continues is the same row.
		claim, err := fence.Resume(job, a)
		must(t, err)
		must(t, s.f.Check(t.Context(), claim))
		if c := s.raise(t, b); c.Previous.Fence != 7 || c.Previous.Nonce != "a" || c.Previous.State != fence.Running {
			t.Fatalf("after the functions, Raise gives %+v", c.Previous)
		}
		refused(t, s.inTx(t, s.db, s.call("stint_admit", job, a.String()), insert), "SF001")
		refused(t, s.inTx(t, s.db, s.call("stint_finish", job, a.String())), "SF001")
		refused(t, s.inTx(t, s.db, s.call("stint_admit", job, "12.other"), insert), "SF002")
		refused(t, s.inTx(t, s.db, s.call("stint_admit", "nobody", "12.b"), insert), "SF003")
		refused(t, s.inTx(t, s.db, s.call("stint_admit", job, "13.c"), insert), "SF004")
		_, err = s.previous(t, a)
		refused(t, err, "SF001")
		_, err = s.previous(t, grant(12, "other"))
		refused(t, err, "SF002")
		must(t, s.inTx(t, s.db, s.call("stint_admit", job, b.String()), insert, s.call("stint_finish", job, b.String())))
		if r, err := s.f.Row(t.Context(), job); err != nil || r.State != fence.Done || r.Fence != 12 {
			t.Fatalf("the row is %+v, %v", r, err)
		}
		if n := s.count(t); n != 2 {
			t.Fatalf("%d invoices", n)
		}
		want := fence.Row{Fence: 12, Nonce: "b", State: fence.Done, Owner: 12}
		for range 2 {
			if r, err := s.previous(t, grant(20, "c")); err != nil || r != want {
				t.Fatalf("the raise gives %+v, %v, want %+v", r, err, want)
			}
		}
		if c := s.raise(t, grant(20, "c")); c.Previous.Nonce != "b" || c.Previous.State != fence.Done {
			t.Fatalf("repeated in Go the raise gives %+v", c.Previous)
		}
	})
}

func TestTheSQLFunctionsRefuseWhatIsNoGrantOrName(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		for _, g := range []string{"", "7", "7.", ".a", "07.a", "+7.a", "-7.a", "0.a", "9007199254740992.a", "7.a b", "7.a\n", "weak-7.a", "7." + strings.Repeat("n", 65), "99999999999999999999.a"} {
			for _, f := range []string{"stint_raise", "stint_admit", "stint_finish"} {
				refused(t, s.inTx(t, s.db, s.call(f, job, g)), "SF006")
			}
		}
		for _, name := range []string{"", "a\nb", "a\x7fb", "a\u0085b", strings.Repeat("n", fence.MaxName+1)} {
			refused(t, s.inTx(t, s.db, s.call("stint_raise", name, "7.a")), "SF006")
		}
		for i, name := range []string{" a ", "a", "A", "é", "e\u0301", "a%b", "a'b", strings.Repeat("n", fence.MaxName)} {
			must(t, s.inTx(t, s.db, s.call("stint_raise", name, fmt.Sprintf("%d.n", i+1))))
			if r, err := s.f.Row(t.Context(), name); err != nil || r.Name != name || r.Fence != fence.Token(i+1) {
				t.Errorf("%q: the row is %+v, %v", name, r, err)
			}
		}
		if _, err := s.f.Row(t.Context(), job); !errors.Is(err, fence.ErrNoFence) {
			t.Errorf("a refused raise left a row: %v", err)
		}
	})
}

func TestAPrunedNameRefusesInSQLToo(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		c := s.raise(t, grant(20, "a"))
		must(t, s.f.Finish(t.Context(), c))
		if n, err := s.f.Prune(t.Context(), 0); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		_, err := s.previous(t, grant(20, "a"))
		refused(t, err, "SF001")
		r, err := s.previous(t, grant(21, "b"))
		if err != nil || r.Fence != 0 || r.Seq != 1 {
			t.Fatalf("the row before is %+v, %v", r, err)
		}
	})
}

func TestFunctionsOfAnotherTableHaveItsName(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		other := with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "night_fence"})
		must(t, other.f.Migrate(t.Context()))
		must(t, s.inTx(t, s.db, s.call("night_raise", job, "7.a")))
		if r, err := other.f.Row(t.Context(), job); err != nil || r.Fence != 7 {
			t.Fatalf("the row is %+v, %v", r, err)
		}
	})
}
