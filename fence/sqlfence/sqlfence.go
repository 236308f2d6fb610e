// Package sqlfence keeps fences in an SQL database, beside the data that they
// guard, so that the check and the write are one transaction.
//
//	fences, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite})
//	claim, err := fences.Raise(ctx, "billing", lease.Grant()) // first act, before any read
//	err = fences.InTx(ctx, claim, nil, func(tx *sql.Tx) error {
//		_, err := tx.ExecContext(ctx, "INSERT INTO invoices …")
//		return err
//	})
//
// It speaks database/sql only and links no driver.
package sqlfence

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Options sets up a Fence. Dialect is required; the rest has defaults.
type Options struct {
	// Dialect is the database that the *sql.DB talks to.
	Dialect Dialect
	// Table is the table that Migrate makes, and the stem of the names of its
	// index and its companion table. Default "stint_fence". Letters, digits and
	// '_', at most 48.
	Table string
	// Settle bounds how long the outcome of a COMMIT whose answer was lost is
	// looked for, even when the caller's context has ended. Default 5 s.
	Settle time.Duration
}

// Fence is a fence.Fence over one table. It is safe for concurrent use. The
// *sql.DB stays the caller's, to configure and to close.
type Fence struct {
	db     *sql.DB
	d      *dialect
	q      *queries
	table  string
	settle time.Duration

	mu   sync.Mutex
	lost map[handed]*fence.Sequence // of claims without a Seq, while unsettled
}

// handed names a claim that came without a Seq.
type handed struct {
	name  string
	grant fence.Grant
}

var _ fence.Fence = (*Fence)(nil)

const (
	defaultTable  = "stint_fence"
	defaultSettle = 5 * time.Second
)

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// New makes a Fence over db. It returns every bad setting in one error and does
// not touch the database: Migrate makes the table.
func New(db *sql.DB, o Options) (*Fence, error) {
	var bad []error
	if db == nil {
		bad = append(bad, errors.New("the *sql.DB is nil"))
	}
	d, ok := dialects[o.Dialect]
	if !ok {
		bad = append(bad, fmt.Errorf("unknown Dialect %v: set sqlfence.SQLite (there is no other yet)", o.Dialect))
	}
	if o.Table == "" {
		o.Table = defaultTable
	}
	if !tableName.MatchString(o.Table) {
		bad = append(bad, fmt.Errorf("table name %q: it is a letter or '_', then letters, digits and '_', 48 characters at most", o.Table))
	}
	if o.Settle < 0 {
		bad = append(bad, fmt.Errorf("settle time %v is negative", o.Settle))
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("sqlfence: %w", errors.Join(bad...))
	}
	return &Fence{
		db: db, d: d, q: d.queries(o.Table), table: o.Table, settle: o.Settle,
		lost: map[handed]*fence.Sequence{},
	}, nil
}
