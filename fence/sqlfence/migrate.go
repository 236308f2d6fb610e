package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
)

// Migrate makes the tables, or brings those of an older version up to date. It
// is harmless to repeat, and when many processes do it at once. It refuses
// tables of a newer version than it knows.
func (f *Fence) Migrate(ctx context.Context) error {
	return f.repeat(ctx, "migrate "+f.table, func(ctx context.Context, tx *sql.Tx, _ bool) error {
		fill, latest := f.d.fill(f.table), int64(len(f.d.migrate))
		for _, s := range f.d.migrate[0] { // makes the version's own row
			if _, err := tx.ExecContext(ctx, fill(s)); err != nil {
				return err
			}
		}
		var have int64
		if err := tx.QueryRowContext(ctx, f.q.version).Scan(&have); err != nil {
			return err
		}
		if have > latest {
			return fmt.Errorf("sqlfence: table %s has version %d, made by a newer stint; this one knows up to %d. Nothing was changed; use the newer program", f.table, have, latest)
		}
		for _, more := range f.d.migrate[max(have, 1):] {
			for _, s := range more {
				if _, err := tx.ExecContext(ctx, fill(s)); err != nil {
					return err
				}
			}
		}
		_, err := tx.ExecContext(ctx, f.q.setVersion, latest, latest)
		return err
	})
}

// MigrateSQL is what Migrate runs on an empty database, for those who keep
// their migrations elsewhere. Every statement may be repeated.
func (f *Fence) MigrateSQL() []string {
	fill := f.d.fill(f.table)
	var all []string
	for _, version := range f.d.migrate {
		for _, s := range version {
			all = append(all, fill(s))
		}
	}
	return all
}
