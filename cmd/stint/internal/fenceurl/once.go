package fenceurl

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// The records of jobs that are done lie beside the fence's table, in TABLE_once:
// one row for a name and a key, which stint does not delete. What belongs to a
// name is written under its fence only.

// onceTables makes the table, and may be repeated. In MariaDB a name and a key
// are bytes, so that no collation takes two of them for one.
var onceTables = map[sqlfence.Dialect]string{
	sqlfence.SQLite: `CREATE TABLE IF NOT EXISTS {t}_once (
  name TEXT NOT NULL, once_key TEXT NOT NULL, token INTEGER NOT NULL, done_by TEXT NOT NULL, done_at INTEGER NOT NULL,
  PRIMARY KEY (name, once_key)
) WITHOUT ROWID`,
	sqlfence.PostgreSQL: `CREATE TABLE IF NOT EXISTS {t}_once (
  name text COLLATE "C" NOT NULL, once_key text COLLATE "C" NOT NULL, token bigint NOT NULL, done_by text NOT NULL, done_at bigint NOT NULL,
  PRIMARY KEY (name, once_key)
)`,
	sqlfence.MariaDB: `CREATE TABLE IF NOT EXISTS {t}_once (
  name VARBINARY(1024) NOT NULL, once_key VARBINARY(255) NOT NULL, token BIGINT NOT NULL, done_by TEXT CHARACTER SET utf8mb4 NOT NULL, done_at BIGINT NOT NULL,
  PRIMARY KEY (name, once_key)
) ENGINE=InnoDB`,
}

// onceSQL makes the records of a fence's table.
func onceSQL(dialect sqlfence.Dialect, table string) string {
	return strings.ReplaceAll(onceTables[dialect], "{t}", table)
}

// PrepareOnce makes the table of records. Where there is one it only reads: who may
// make no tables may use it.
func (s *Store) PrepareOnce(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, s.fill(`SELECT token FROM {t}_once WHERE 1 = 0`))
	if err == nil {
		return nil
	}
	for range 3 { // several that make it at once get in each other's way
		if _, err = s.db.ExecContext(ctx, onceSQL(s.dialect, s.table)); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return fmt.Errorf("the table of records (%s_once) cannot be made: %w", s.table, err)
}

// fill names the table, and writes the arguments as the database wants them.
func (s *Store) fill(query string) string {
	return sqlurl.Arguments(s.dialect, strings.ReplaceAll(query, "{t}", s.table))
}

// text is a name or a key as the table keeps it.
func (s *Store) text(v string) any {
	if s.dialect == sqlfence.MariaDB {
		return []byte(v)
	}
	return v
}

// RecordedBy says by whom, and when, key of name was recorded done; "" if it was
// not. After a raise of name, the answer stands until that grant itself finishes
// or a later one is raised.
func (s *Store) RecordedBy(ctx context.Context, name, key string) (string, error) {
	if err := s.PrepareOnce(ctx); err != nil {
		return "", err
	}
	var by string
	var token, at int64
	err := s.db.QueryRowContext(ctx, s.fill(`SELECT done_by, token, done_at FROM {t}_once WHERE name = ? AND once_key = ?`),
		s.text(name), s.text(key)).Scan(&by, &token, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("by %s (token %d) at %s", by, token, time.UnixMilli(at).Format("2006-01-02 15:04:05")), nil
}

// Done sets DONE and, unless key is empty, records key, in one transaction. Like
// Finish, it refuses a claim that a later one has followed. Repeating it is
// harmless, so what may be over in a moment (a deadlock, a server that is restarted,
// a COMMIT whose answer was lost) is tried again until ctx ends; alive is called
// before each further try.
func (s *Store) Done(ctx context.Context, c fence.Claim, key, by string, alive func()) error {
	// The command may have written under the grant, and counted by itself.
	own, err := fence.Resume(c.Name, c.Grant)
	if err != nil {
		return err
	}
	for {
		if key == "" {
			err = s.Finish(ctx, c)
		} else {
			err = s.record(ctx, own, key, by)
		}
		if err == nil || ctx.Err() != nil || !s.passes(err) {
			return err
		}
		alive()
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// passes tells an error after which the same transaction may come through. The
// fence's own refusals are final.
func (s *Store) passes(err error) bool {
	if errors.Is(err, fence.ErrStale) {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, fence.ErrUnknown) || s.Retryable(err)
}

func (s *Store) record(ctx context.Context, c fence.Claim, key, by string) error {
	err := s.InTx(ctx, c, nil, func(tx *sql.Tx) error {
		var n int
		err := tx.QueryRowContext(ctx, s.fill(`SELECT COUNT(*) FROM {t}_once WHERE name = ? AND once_key = ?`), s.text(c.Name), s.text(key)).Scan(&n)
		if err != nil {
			return err
		}
		if n == 0 { // nobody else can add it: the fence's row is locked
			_, err = tx.ExecContext(ctx, s.fill(`INSERT INTO {t}_once (name, once_key, token, done_by, done_at) VALUES (?, ?, ?, ?, ?)`),
				s.text(c.Name), s.text(key), int64(c.Grant.Token), by, time.Now().UnixMilli())
			if err != nil {
				return err
			}
		}
		return s.FinishTx(ctx, tx, c)
	})
	if errors.Is(err, fence.ErrCommitted) {
		return nil
	}
	return err
}
