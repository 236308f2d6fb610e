package fenceurl

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// target is what a fence's URL names: a file, or a database of a server.
type target struct {
	path   string // of the file
	server string // the URL without what is ours; empty: a file
	table  string
}

// defaultTable is that of sqlfence.Options.
const defaultTable = "stint_fence"

// Check refuses a URL that cannot be meant and a file that is no store, without
// opening a database: what is wrong is to be told before a lease is waited for.
// Its errors match authority.ErrInvalid, and none repeats a password.
func Check(raw string) error {
	t, err := parse(raw)
	if err != nil {
		return err
	}
	if t.server != "" {
		db, _, err := sqlurl.Open(t.server) // connects to nothing
		if err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		return db.Close()
	}
	return t.checkFile(raw)
}

// parse is strict: a parameter that was dropped would put the fence into a table
// that nobody looks at.
func parse(raw string) (target, error) {
	bad := func(why string) (target, error) {
		return target{}, invalid(raw, "%s; it looks like sqlite:///path/store.db?table=stint_fence, "+
			"postgres://user:password@host/database or mariadb://user:password@host/database", why)
	}
	u, err := url.Parse(raw)
	if err != nil { // the parser's error repeats its input, and with it a password
		return bad("the URL cannot be read (a space in it is written %20, a '#' %23, a '/' in a password %2F, a '%' %25)")
	}
	if sqlurl.Is(u.Scheme) {
		return server(u, bad)
	}
	switch {
	case u.Scheme != "sqlite":
		return bad("stores of this kind have no fence here")
	case u.Host != "":
		return bad("a file's URL has three slashes: sqlite:///" + u.Host + u.Path)
	case u.User != nil:
		return bad("a file has no user")
	case !filepath.IsAbs(u.Path):
		return bad("the path must be absolute")
	case bytes.ContainsRune([]byte(raw), '#'):
		return bad("it has a '#' (in a file's name that is written %23)")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows the '?' cannot be read")
	}
	for k := range q {
		if k != "table" {
			return bad("unknown parameter " + k)
		}
	}
	table, err := tableOf(q)
	if err != nil {
		return bad(err.Error())
	}
	return target{path: u.Path, table: table}, nil
}

// server takes the table out of a server's URL. All else is the driver's.
func server(u *url.URL, bad func(string) (target, error)) (target, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("what follows the '?' cannot be read")
	}
	table, err := tableOf(q)
	if err != nil {
		return bad(err.Error())
	}
	q.Del("table")
	rest := *u
	rest.RawQuery = q.Encode()
	return target{server: rest.String(), table: table}, nil
}

// tableOf reads the table.
func tableOf(q url.Values) (string, error) {
	tables, given := q["table"]
	switch {
	case !given:
		return defaultTable, nil
	case len(tables) > 1:
		return "", errors.New("the table is named twice")
	case tables[0] == "":
		return "", errors.New("the table's name is empty")
	}
	// New only looks at its settings: no database is touched.
	if _, err := sqlfence.New(new(sql.DB), sqlfence.Options{Dialect: sqlfence.SQLite, Table: tables[0]}); err != nil {
		return "", err
	}
	return tables[0], nil
}

// header begins every SQLite database that is not empty.
const header = "SQLite format 3\x00"

// checkFile wants a store that is there: a fence in a file that nobody else
// writes guards nothing.
func (t target) checkFile(raw string) error {
	info, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return invalid(raw, "there is no store; the fence lies in the database that the command writes to, "+
			"so create that first (sqlite3 %s VACUUM), or correct the path", t.path)
	case err != nil:
		return invalid(raw, "the store cannot be used: %w", err)
	case !info.Mode().IsRegular():
		return invalid(raw, "this is no file, and so no SQLite database")
	}
	f, err := os.Open(t.path)
	if err != nil {
		return invalid(raw, "the store cannot be used: %w", err)
	}
	defer f.Close()
	begin := make([]byte, len(header))
	n, err := io.ReadFull(f, begin)
	switch {
	case n == 0 && errors.Is(err, io.EOF): // an empty file is an empty database
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return invalid(raw, "the store cannot be read: %w", err)
	case string(begin) != header:
		return invalid(raw, "this file is no SQLite database; nothing in it was changed")
	}
	return nil
}

func invalid(raw, format string, a ...any) error {
	return fmt.Errorf("fence: %w: %s: %w", authority.ErrInvalid, authority.Redact(raw), fmt.Errorf(format, a...))
}
