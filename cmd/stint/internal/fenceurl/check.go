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
	"github.com/stint-dev/stint/fence/sqlfence"
)

// target is what a fence's URL names.
type target struct{ path, table string }

// Check refuses a URL that cannot be meant and a file that is no store, without
// opening a database: what is wrong is to be told before a lease is waited for.
// Its errors match authority.ErrInvalid, and none repeats a password.
func Check(raw string) error {
	t, err := parse(raw)
	if err != nil {
		return err
	}
	return t.checkFile(raw)
}

// parse is strict: a parameter that was dropped would put the fence into a table
// that nobody looks at.
func parse(raw string) (target, error) {
	bad := func(why string) (target, error) {
		return target{}, invalid(raw, "%s; it looks like sqlite:///path/store.db?table=stint_fence", why)
	}
	u, err := url.Parse(raw)
	if err != nil { // the parser's error repeats its input, and with it a password
		return bad("the URL cannot be read")
	}
	switch {
	case u.Scheme != "sqlite":
		return bad("only sqlite:// stores have a fence here")
	case u.Host != "":
		return bad("a file's URL has three slashes: sqlite:///" + u.Host + u.Path)
	case u.User != nil:
		return bad("a file has no user")
	case !filepath.IsAbs(u.Path):
		return bad("the path must be absolute")
	case bytes.ContainsRune([]byte(raw), '#'):
		return bad("it has a '#' (in a file's name that is written %23)")
	}
	table, err := tableOf(u.RawQuery)
	if err != nil {
		return bad(err.Error())
	}
	return target{u.Path, table}, nil
}

// tableOf reads the query, of which a table is all there is. Empty: the default.
func tableOf(query string) (string, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("what follows the '?' cannot be read")
	}
	for k := range q {
		if k != "table" {
			return "", fmt.Errorf("unknown parameter %s", k)
		}
	}
	tables, given := q["table"]
	switch {
	case !given:
		return "", nil
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
