package sqlfencetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/stint-dev/stint/fence/sqlfence"
)

// A COMMIT of the function's own is refused where the driver has a commit hook.
func TestAFunctionThatEndsItsTransactionIsToldSo(t *testing.T) {
	t.Parallel()
	dsn := modes[0].dsn(t)
	for name, s := range map[string]*store{"hook": fresh(t, dsn, nil), "no hook": bare(t, dsn, noFault)} {
		c := raise(t, s, job, grant(7, "a"))
		for i, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
			for _, result := range []error{nil, errAbandon} {
				key := fmt.Sprint(name, i, result)
				err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
					must(t, insert(tx, key))
					_ = end(tx)
					return result
				})
				wants(t, err, sqlfence.ErrEnded)
				if result != nil {
					wants(t, err, result)
				}
				applied, settled := s.f.Settle(t.Context(), c)
				must(t, settled)
				if want := i == 0 && name == "no hook"; applied != want || (s.count(t, key) == 1) != want {
					t.Errorf("%s: applied is %v, the row count %d", key, applied, s.count(t, key))
				}
				must(t, s.write(t.Context(), c, "next", "v", nil))
			}
		}
		key := name + " cancelled"
		ctx, cancel := context.WithCancel(t.Context())
		err := s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error {
			err := errors.Join(insert(tx, key), tx.Commit())
			cancel()
			return errors.Join(err, errAbandon)
		})
		if n := s.count(t, key); name == "hook" {
			if wants(t, err, errAbandon); n != 0 {
				t.Errorf("%s: written %d times", key, n)
			}
		} else if wants(t, err, sqlfence.ErrEnded); n != 1 {
			t.Errorf("%s: written %d times", key, n)
		}
		must(t, s.write(t.Context(), c, "next", "v", nil))
	}
}

// The same by a statement, which database/sql knows nothing of.
func TestACommitStatementInsideInTxIsNotTakenForItsOwn(t *testing.T) {
	t.Parallel()
	dsn := modes[0].dsn(t)
	for name, s := range map[string]*store{"hook": fresh(t, dsn, nil), "no hook": bare(t, dsn, noFault)} {
		c := raise(t, s, job, grant(7, "a"))
		err := s.f.InTx(t.Context(), c, nil, func(tx *sql.Tx) error {
			must(t, insert(tx, name))
			_, _ = tx.Exec("COMMIT")
			_ = insert(tx, name)
			return nil
		})
		if n := s.count(t, name); name == "hook" {
			if wants(t, err, sqlfence.ErrRolledBack); n != 0 {
				t.Errorf("%s: written %d times, and %v", name, n, err)
			}
		} else if wants(t, err, sqlfence.ErrEnded); n != 2 || !contains(err, "it committed") {
			t.Errorf("%s: written %d times, and %v", name, n, err)
		}
	}
}
