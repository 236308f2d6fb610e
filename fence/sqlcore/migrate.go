package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// Migrate makes the tables and functions, or brings those of an older version
// up to date. Where all is there already, it only reads (not on SQLite). It is
// harmless to repeat, and when many processes do it at once. It refuses tables of a
// newer version than it knows, and a server that is older than the dialect or
// another product.
func (e *Engine) Migrate(ctx context.Context) error {
	what := "migrate " + e.o.Table
	latest := int64(len(e.d.migrate))
	if err := e.notInside(); err != nil {
		return e.errorf("%s: %w", what, err)
	}
	// Where the right to make tables is missing there must be nothing to make. In
	// one file the write lock is all that orders those who migrate.
	if have, err := e.installed(ctx); err == nil && have == latest && e.o.Own == nil && e.d.serial != "" {
		return nil
	}
	var unfit error
	made := false // or on its way
	fn := func(ctx context.Context, tx Tx) (err error) {
		if unfit, err = e.unfit(ctx, tx); err != nil || unfit != nil {
			return errors.Join(err, unfit)
		}
		unlock, err := e.serial(ctx, tx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unlock()) }()
		return e.migrate(ctx, tx, latest, &made)
	}
	err := e.again(ctx, what, func(ctx context.Context) (Outcome, error) {
		how, err := e.begin(ctx, new(Attempt), fn)
		if err != nil && made && e.d.unlock != "" {
			err = halfway{err}
		}
		return how, err
	}, func() {})
	if unfit != nil {
		return e.errorf("%s: %w. Nothing was written", what, unfit)
	}
	return err
}

// installed is the version of the tables that are there; zero: none, or not all.
func (e *Engine) installed(ctx context.Context) (have int64, err error) {
	err = e.plain(ctx, func() error { return one(ctx, e.db, e.q.version, nil, &have) })
	if err == nil { // the fence's own table may have been dropped beside it
		err = e.plain(ctx, func() error { return e.readable(ctx, e.db) })
	}
	if err != nil && (errors.Is(err, errNoRow) || e.d.kind(err) == missing) {
		return 0, nil
	}
	return have, err
}

// readable looks whether the fence's table has all of its columns.
func (e *Engine) readable(ctx context.Context, from Tx) error {
	_, err := e.query(ctx, from, e.q.read, "")
	if errors.Is(err, errNoRow) {
		return nil
	}
	return err
}

// serial waits for others who migrate.
func (e *Engine) serial(ctx context.Context, tx Tx) (unlock func() error, err error) {
	if e.d.serial == "" {
		return func() error { return nil }, nil
	}
	var got int64
	if err := one(ctx, tx, e.sql(e.d.serial), nil, &got); err != nil {
		return nil, err
	}
	if got != 1 {
		return nil, errors.New("another process has been migrating for more than 60 s")
	}
	return func() error {
		if e.d.unlock == "" {
			return nil
		}
		return one(context.WithoutCancel(ctx), tx, e.sql(e.d.unlock), nil, &got)
	}, nil
}

// migrate brings the tables from whatever version they have to the latest. made is
// set once a statement may have made something.
func (e *Engine) migrate(ctx context.Context, tx Tx, latest int64, made *bool) error {
	run := func(s string) error {
		_, err := tx.Exec(ctx, s)
		*made = *made || err == nil || ctx.Err() != nil || e.db.Dead(err) || e.d.kind(err) == cut
		if err != nil {
			err = fmt.Errorf("%w, in: %s", err, firstLine(s))
		}
		return err
	}
	for _, s := range e.version(0) { // makes the version's own row
		if err := run(s); err != nil {
			return err
		}
	}
	var have int64
	if err := one(ctx, tx, e.q.version, nil, &have); err != nil {
		return err
	}
	if have > latest {
		return e.errorf("table %s has version %d, made by a newer stint; this one knows up to %d. Nothing was changed; use the newer program", e.o.Table, have, latest)
	}
	for v := int(max(have, 1)); v < len(e.d.migrate); v++ {
		for _, s := range e.version(v) {
			if err := run(s); err != nil {
				return err
			}
		}
	}
	err := e.readable(ctx, tx)
	switch {
	case err == nil:
		_, err = tx.Exec(ctx, e.q.setVersion, latest, latest)
	case e.d.kind(err) == missing: // not %w: to migrate is no remedy
		err = fmt.Errorf("table %s is there, but not as it was made: %v. Restore it, or drop it and %s; then every fence is forgotten", e.o.Table, err, e.d.filler(e.o)("{m}"))
	}
	return err
}

// halfway is the error of a migration of which a part stands: MariaDB commits with
// every statement that makes a table or a procedure.
type halfway struct{ error }

func (h halfway) Unwrap() error { return h.error }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s[max(0, strings.Index(s, "CREATE")):], "\n")
	return strings.TrimSuffix(line, " (")
}

// version gives the statements of one version. In a table of the caller's the
// columns are added in place of the table.
func (e *Engine) version(i int) (all []string) {
	list := e.d.migrate[i]
	if i == 0 && e.o.Own != nil {
		list = slices.Concat(e.d.adopt, list[1:], e.d.forget)
	}
	fill := e.d.filler(e.o)
	for _, s := range list {
		all = append(all, fill(strings.ReplaceAll(s, "{make}", e.d.makes(e.o))))
	}
	return all
}

// MigrateSQL is what Migrate runs on an empty database, for those who keep
// their migrations elsewhere. Every statement may be repeated.
func (e *Engine) MigrateSQL() []string {
	var all []string
	for i := range e.d.migrate {
		all = append(all, e.version(i)...)
	}
	latest := fmt.Sprint(len(e.d.migrate))
	return append(all, e.d.filler(e.o)("UPDATE {m} SET v = "+latest+" WHERE k = 'version' AND v < "+latest))
}

var _ fence.Fence = (*Engine)(nil)
