package sqlfunctions

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-dev/stint/backends/pgfence"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// data is what the suite writes, beside the fence.
func (s *store) data(t *testing.T) {
	t.Helper()
	if s.postgres() {
		s.exec(t, `CREATE TABLE data (id bigint GENERATED ALWAYS AS IDENTITY, k text COLLATE "C", v text)`)
		return
	}
	s.exec(t, "CREATE TABLE data (id BIGINT AUTO_INCREMENT PRIMARY KEY, k VARBINARY(1024), v TEXT)")
}

// arg is the n-th argument of a statement.
func (s *store) arg(n int) string {
	if s.postgres() {
		return fmt.Sprint("$", n)
	}
	return "?"
}

func (s *store) suite() fencetest.Store {
	return fencetest.Store{
		Fence: s.f, Row: s.f.Row, Bar: s.f.Bar, Prune: s.f.Prune,
		Write: func(ctx context.Context, c fence.Claim, key, value string, between func() error) error {
			return s.f.InTx(ctx, c, nil, func(tx *sql.Tx) error {
				if between != nil {
					if err := between(); err != nil {
						return err
					}
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO data (k, v) VALUES ("+s.arg(1)+", "+s.arg(2)+")", key, value)
				return err
			})
		},
		Read: func(ctx context.Context, key string) (v string, err error) {
			err = s.db.QueryRowContext(ctx, "SELECT v FROM data WHERE k = "+s.arg(1)+" ORDER BY id DESC LIMIT 1", key).Scan(&v)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			return v, err
		},
		Remove: func(ctx context.Context) error { _, err := s.db.ExecContext(ctx, "DELETE FROM data"); return err },
	}
}

// clear makes the tables as new.
func (s *store) clear(t *testing.T, table string) {
	t.Helper()
	s.exec(t, "DELETE FROM "+table, "DELETE FROM data", "UPDATE "+table+"_meta SET v = 0 WHERE k <> 'version'")
}

func TestPgfenceKeepsTheContractBesideSqlfence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   string
		o      pgx.TxOptions
		pooled bool
	}{
		"default":                      {},
		"serializable, exec":           {"default_query_exec_mode=exec", pgx.TxOptions{IsoLevel: pgx.Serializable}, false},
		"repeatable read, simple":      {"default_query_exec_mode=simple_protocol", pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, false},
		"through a transaction pooler": {"default_query_exec_mode=exec", pgx.TxOptions{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t, sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{}))
			s.data(t)
			addr := s.at.Addr()
			if c.pooled {
				addr = s.at.Pooler(t, s.at).Addr()
			}
			pool, err := pgxpool.New(t.Context(), s.at.At(addr, c.mode))
			must(t, err)
			t.Cleanup(pool.Close)
			f, err := pgfence.New(pool, pgfence.Options{})
			must(t, err)
			fencetest.Run(t, fencetest.Subject{Open: func(t *testing.T) fencetest.Handle {
				s.clear(t, "stint_fence")
				peer := s.suite()
				return fencetest.Handle{Store: pgSuite(pool, f, c.o), Peer: &peer}
			}})
		})
	}
}

// pgSuite writes by COPY.
func pgSuite(pool *pgxpool.Pool, f *pgfence.Fence, o pgx.TxOptions) fencetest.Store {
	return fencetest.Store{
		Fence: f, Row: f.Row, Bar: f.Bar, Prune: f.Prune,
		Write: func(ctx context.Context, c fence.Claim, key, value string, between func() error) error {
			return f.InTx(ctx, c, o, func(tx pgx.Tx) error {
				if between != nil {
					if err := between(); err != nil {
						return err
					}
				}
				_, err := tx.CopyFrom(ctx, pgx.Identifier{"data"}, []string{"k", "v"}, pgx.CopyFromRows([][]any{{key, value}}))
				return err
			})
		},
		Read: func(ctx context.Context, key string) (v string, err error) {
			err = pool.QueryRow(ctx, "SELECT v FROM data WHERE k = $1 ORDER BY id DESC LIMIT 1", key).Scan(&v)
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			return v, err
		},
		Remove: func(ctx context.Context) error { _, err := pool.Exec(ctx, "DELETE FROM data"); return err },
	}
}

// owner makes the job before it raises: in a table of its own, a user has it.
type owner struct {
	*sqlfence.Fence
	s *store
}

func (o owner) job(ctx context.Context, name string) {
	ignore := "INSERT IGNORE INTO tasks (task) VALUES (?)"
	if o.s.postgres() {
		ignore = "INSERT INTO tasks (task) VALUES ($1) ON CONFLICT DO NOTHING"
	}
	if fence.CheckName(name) == nil {
		_, _ = o.s.db.ExecContext(ctx, ignore, name) // what fails here fails there
	}
}

func (o owner) Raise(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	o.job(ctx, name)
	return o.Fence.Raise(ctx, name, g)
}

func TestATableOfTheUsersOwnKeepsTheContract(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		s.data(t)
		key := "VARBINARY(1024)"
		if s.postgres() {
			key = `text COLLATE "C"`
		}
		s.exec(t, "CREATE TABLE tasks (task "+key+" PRIMARY KEY, state VARCHAR(10), fence INT)")
		own := with(t, s.at, s.at.DSN(), sqlfence.Options{Table: "tasks", Own: &sqlfence.Own{Key: "task", Prefix: "f_"}})
		must(t, own.f.Migrate(t.Context()))
		fencetest.Run(t, fencetest.Subject{NoPrune: true, Open: func(t *testing.T) fencetest.Handle {
			own.clear(t, "tasks")
			st := own.suite()
			o := owner{own.f, own}
			st.Fence = o
			st.Bar = func(ctx context.Context, name string, token fence.Token) error {
				o.job(ctx, name)
				return own.f.Bar(ctx, name, token)
			}
			return fencetest.Handle{Store: st}
		}})
	})
}

// A row that a raise was refused on is none to anybody, and goes with a prune.
func TestARefusedRaiseOfANewNameLeavesNothingThatCounts(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, s *store) {
		must(t, s.f.Finish(t.Context(), s.raise(t, grant(20, "a"))))
		if n, err := s.f.Prune(t.Context(), 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		_, err := s.f.Raise(t.Context(), "new", grant(20, "b"))
		wants(t, err, fence.ErrStale)
		_, err = s.f.Row(t.Context(), "new")
		wants(t, err, fence.ErrNoFence)
		if n, err := s.f.Prune(t.Context(), time.Hour); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
}
