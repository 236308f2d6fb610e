// Package fenceurl opens the fence that a URL names:
// sqlite:///path/store.db?table=stint_fence, or
// postgres://user:password@host/database?table=stint_fence, and mariadb:// or
// mysql:// in the same way. Parameters other than the table are the driver's.
package fenceurl

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "github.com/ncruces/go-sqlite3/driver" // the "sqlite3" driver

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// Store is a fence and the connection under it.
type Store struct {
	*sqlfence.Fence
	db      *sql.DB
	dialect sqlfence.Dialect
	table   string
}

// Open opens the store and makes the fence's table if it has none. It refuses
// what Check refuses. Errors of the URL match authority.ErrInvalid, and none
// repeats a password.
func Open(ctx context.Context, raw string) (*Store, error) {
	t, err := parse(raw)
	if err != nil {
		return nil, err
	}
	db, dialect, err := t.open(raw)
	if err != nil {
		return nil, err
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: dialect, Table: t.table})
	if err == nil {
		err = f.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("fence: %s: %w", authority.Redact(raw), err)
	}
	return &Store{Fence: f, db: db, dialect: dialect, table: t.table}, nil
}

func (t target) open(raw string) (*sql.DB, sqlfence.Dialect, error) {
	if t.server != "" {
		db, dialect, err := sqlurl.Open(t.server)
		if err != nil {
			return nil, 0, fmt.Errorf("fence: %w", err)
		}
		return db, dialect, nil
	}
	if err := t.checkFile(raw); err != nil { // it may have gone since Check
		return nil, 0, err
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: t.path,
		RawQuery: "mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite3", dsn.String())
	if err != nil {
		return nil, 0, fmt.Errorf("fence: %s: %w", authority.Redact(raw), err)
	}
	return db, sqlfence.SQLite, nil
}

// Close closes the connection.
func (s *Store) Close() { _ = s.db.Close() }
