package sqlitelease

import (
	"context"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
)

// explain says what an error of the database means for the leases. It is for
// errors before COMMIT: a damaged file then is a definite failure.
func (a *Authority) explain(err error) error {
	plain := a.plain(err)
	if errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.NOTADB) {
		return broken(plain)
	}
	return plain
}

// plain explains and says nothing about what was changed.
func (a *Authority) plain(err error) error {
	var what string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBusy), errors.Is(err, sqlite3.BUSY):
		what = "nothing was done: another process holds the file's write lock (perhaps it is stopped inside a transaction)"
	case errors.Is(err, sqlite3.FULL):
		what = "nothing was done: the disk is full, so no lease can be granted or renewed; make room"
	case errors.Is(err, sqlite3.READONLY):
		what = "nothing was done: the file or its folder cannot be written to"
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		what = "the file is damaged and was left as it is; stop all its users, move it away with its -wal and -shm but without its -mark, and run stint bump, which makes a new one whose tokens go on growing"
	case errors.Is(err, sqlite3.CANTOPEN):
		what = "the file, or its -wal and -shm beside it, cannot be opened"
	case errors.Is(err, sqlite3.IOERR):
		what = "the disk failed, and the request may or may not have been carried out"
	case errors.Is(err, sqlite3.INTERRUPT), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		what = "the request was given up"
	default:
		var code sqlite3.ErrorCode
		if !errors.As(err, &code) {
			return err // one of ours
		}
		what = "unexpected error of the database"
	}
	return fmt.Errorf("sqlitelease: %s: %s: %w", a.path, what, err)
}
