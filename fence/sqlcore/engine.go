// Package sqlcore is what a fence in an SQL database does, whatever client
// library carries its statements: the statements of each database, their order,
// what is repeated, and how an unknown COMMIT is settled.
//
// It is for those who bring a client library of their own. Users take
// fence/sqlfence (database/sql) or backends/pgfence (pgx); what each method
// promises is said there.
package sqlcore

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Options sets up an Engine. Dialect is required; the rest has defaults.
type Options struct {
	// Package begins error messages: the package that users know.
	Package string
	// Dialect is the database.
	Dialect Dialect
	// Table is the table that Migrate makes, and the stem of other names.
	// Default "stint_fence". Letters, digits and '_', at most 48.
	Table string
	// Own makes Table a table of the caller's. Nil: the table is the fence's.
	Own *Own
	// Settle bounds how long the outcome of a COMMIT whose answer was lost is
	// looked for. Default 5 s.
	Settle time.Duration
	// LockTimeout is how long Raise, Bar and Settle wait for the row before they
	// end the session that holds it. Default 3 s. Not for SQLite.
	LockTimeout time.Duration
	// IdleTimeout is the longest that a transaction of InTx may sit idle at the
	// server, if less time is not left anyway. Default 30 s. Not for SQLite.
	IdleTimeout time.Duration
}

// Own says that the fence's columns lie in a table of the caller's, beside the
// data of the job that they guard.
type Own struct {
	// Key is the column that holds the fence's name: text, unique, compared byte
	// by byte. Default "name".
	Key string
	// Prefix begins the names of all other columns of the fence, as "stint_" in
	// stint_fence, stint_nonce. Default: none.
	Prefix string
}

// Engine keeps the rules over one table. It is safe for concurrent use.
type Engine struct {
	db          DB
	d           *dialect
	q           *queries
	o           Options
	settle      time.Duration
	lockTimeout time.Duration
	idle        time.Duration

	mu    sync.Mutex
	turns map[handed]*turn // of claims without a Seq, while in use or unsettled
}

// handed names a claim that came without a Seq.
type handed struct {
	name  string
	grant fence.Grant
}

const (
	defaultTable  = "stint_fence"
	defaultSettle = 5 * time.Second
	defaultLock   = 3 * time.Second
	defaultIdle   = 30 * time.Second
)

var (
	tableName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}$`)
	columnName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,31}$`)
)

// New makes an Engine over db. It returns every bad setting in one error, with
// those in bad before its own, and does not touch the database.
func New(db DB, o Options, bad ...error) (*Engine, error) {
	d, ok := dialects[o.Dialect]
	if !ok {
		bad = append(bad, fmt.Errorf("unknown Dialect %v: set SQLite, PostgreSQL or MariaDB", o.Dialect))
	}
	if o.Table == "" {
		o.Table = defaultTable
	}
	if !tableName.MatchString(o.Table) {
		bad = append(bad, fmt.Errorf("table name %q: it is a letter or '_', then letters, digits and '_', 48 characters at most", o.Table))
	}
	if o.Own != nil {
		for _, c := range []string{o.key(), o.Own.Prefix + "fence"} {
			if !columnName.MatchString(c) {
				bad = append(bad, fmt.Errorf("column name %q: it is a letter or '_', then letters, digits and '_', 32 characters at most", c))
			}
		}
	}
	for name, v := range map[string]*time.Duration{"settle time": &o.Settle, "lock timeout": &o.LockTimeout, "idle timeout": &o.IdleTimeout} {
		if *v < 0 {
			bad = append(bad, fmt.Errorf("%s %v is negative", name, *v))
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("%s: %w", o.Package, errors.Join(bad...))
	}
	return &Engine{
		db: db, d: d, q: d.queries(o), o: o, turns: map[handed]*turn{},
		settle: orDefault(o.Settle, defaultSettle), lockTimeout: orDefault(o.LockTimeout, defaultLock), idle: orDefault(o.IdleTimeout, defaultIdle),
	}, nil
}

func (o Options) key() string {
	if o.Own == nil || o.Own.Key == "" {
		return "name"
	}
	return o.Own.Key
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// errorf begins an error with the package that the user knows.
func (e *Engine) errorf(format string, a ...any) error {
	return fmt.Errorf(e.o.Package+": "+format, a...)
}
