// Package fenceurl opens the fence that a URL names:
// sqlite:///path/store.db?table=stint_fence.
package fenceurl

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	_ "github.com/ncruces/go-sqlite3/driver" // the "sqlite3" driver

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// Store is a fence and the connection under it.
type Store struct {
	*sqlfence.Fence
	db *sql.DB
}

// Check refuses a URL that cannot be meant, without opening anything: a wrong
// one is to be told before a lease is waited for. Its errors are Open's.
func Check(raw string) error {
	_, _, err := parse(raw)
	return err
}

// Open opens the store and makes the fence's table if it has none. A store
// that does not exist is refused: a fence in a file that nobody else writes
// guards nothing. Errors of the URL match authority.ErrInvalid, and none
// repeats a password.
func Open(ctx context.Context, raw string) (*Store, error) {
	path, table, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fence: %w: there is no store at %s; the fence lies in the database that the command writes to, "+
			"so create that first (sqlite3 %s VACUUM), or correct the path", authority.ErrInvalid, authority.Redact(raw), path)
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path,
		RawQuery: "mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite3", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("fence: %s: %w", authority.Redact(raw), err)
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite, Table: table})
	if err == nil {
		err = f.Migrate(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("fence: %s: %w", authority.Redact(raw), err)
	}
	return &Store{f, db}, nil
}

// Close closes the connection.
func (s *Store) Close() { _ = s.db.Close() }

func parse(raw string) (path, table string, err error) {
	bad := func(why string) error {
		return fmt.Errorf("fence: %w: %s: %s; it looks like sqlite:///path/store.db?table=stint_fence", authority.ErrInvalid, authority.Redact(raw), why)
	}
	u, err := url.Parse(raw)
	if err != nil { // the parser's error repeats its input, and with it a password
		return "", "", bad("the URL cannot be read")
	}
	switch {
	case u.Scheme != "sqlite":
		return "", "", bad("only sqlite:// stores have a fence here")
	case u.Host != "":
		return "", "", bad("a file's URL has three slashes: sqlite:///" + u.Host + u.Path)
	case !filepath.IsAbs(u.Path):
		return "", "", bad("the path must be absolute")
	}
	for k := range u.Query() {
		if k != "table" {
			return "", "", bad("unknown parameter " + k)
		}
	}
	return u.Path, u.Query().Get("table"), nil
}
