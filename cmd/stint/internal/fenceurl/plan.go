package fenceurl

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// Protect names a table of the user's data, and the fence without which nothing
// is written to it: the name itself, or the column in which each row has it.
type Protect struct{ Table, Name, Column string }

// Plan gives the statements that Open, PrepareOnce and Guard run on a database
// without a fence, as a script for the database's own client. It connects to nothing.
func Plan(raw string, protect []Protect) (string, error) {
	t, err := parse(raw)
	if err != nil {
		return "", err
	}
	db, dialect := new(sql.DB), sqlfence.SQLite
	if t.server != "" {
		if db, dialect, err = sqlurl.Open(t.server); err != nil {
			return "", fmt.Errorf("fence: %w", err)
		}
		defer db.Close()
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: dialect, Table: t.table})
	if err != nil {
		return "", err
	}
	all := append(f.MigrateSQL(), onceSQL(dialect, t.table))
	for _, p := range protect {
		more, err := f.ProtectSQL(p.Table, p.Name, p.Column)
		if err != nil {
			return "", invalid(raw, "%w", err)
		}
		all = append(all, more...)
	}
	return script(dialect, all), nil
}

// script ends each statement as the client wants it: mariadb's own takes every
// ';' for an end, but for another delimiter.
func script(dialect sqlfence.Dialect, all []string) string {
	var b strings.Builder
	for _, s := range all {
		if dialect == sqlfence.MariaDB && strings.Contains(s, ";") {
			fmt.Fprintf(&b, "DELIMITER //\n%s//\nDELIMITER ;\n\n", s)
			continue
		}
		fmt.Fprintf(&b, "%s;\n\n", s)
	}
	return b.String()
}

// Guard makes the triggers; on PostgreSQL in one transaction, so that a table
// that is protected already stays so meanwhile.
func (s *Store) Guard(ctx context.Context, raw string, protect []Protect) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("fence: %s: %w", authority.Redact(raw), err)
	}
	defer tx.Rollback()
	for _, p := range protect {
		all, err := s.ProtectSQL(p.Table, p.Name, p.Column)
		if err != nil {
			return invalid(raw, "%w", err)
		}
		for _, q := range all {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("fence: %s: protect %s: %w", authority.Redact(raw), p.Table, err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("fence: %s: protect: %w", authority.Redact(raw), err)
	}
	return nil
}
