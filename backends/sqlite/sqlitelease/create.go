package sqlitelease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// schema is version 1. Times of leases are nanoseconds on the boot clock.
const schema = `
CREATE TABLE authority (
	one     INTEGER PRIMARY KEY CHECK (one = 1), -- the only row, never deleted
	counter INTEGER NOT NULL,                    -- the highest token that was handed out
	boot    TEXT NOT NULL,                       -- the boot that the deadlines below belong to
	timens  TEXT NOT NULL,                       -- the time namespace of that boot clock
	dev     INTEGER NOT NULL,                    -- where this file lives: a copy lives elsewhere
	ino     INTEGER NOT NULL,
	mark    INTEGER NOT NULL                     -- the inode of FILE-mark: beside another name lies another mark
) STRICT;
CREATE TABLE leases (
	name     TEXT PRIMARY KEY,
	token    INTEGER NOT NULL,
	nonce    TEXT NOT NULL,
	holder   TEXT NOT NULL,
	since    INTEGER NOT NULL, -- wall clock, milliseconds: for people
	length   INTEGER NOT NULL, -- nanoseconds
	deadline INTEGER NOT NULL,
	state    INTEGER NOT NULL  -- 0 granted, 1 released, 2 granted before a reboot or copy: waited out, never renewed
) STRICT, WITHOUT ROWID;
CREATE TABLE handles (       -- open Authorities that have waiters
	id    TEXT PRIMARY KEY,  -- also the name of its pipe
	alive INTEGER NOT NULL   -- counts as dead after this
) STRICT, WITHOUT ROWID;
CREATE TABLE waiters (
	seq    INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of arrival
	name   TEXT NOT NULL,
	waiter TEXT NOT NULL,
	handle TEXT NOT NULL,
	UNIQUE (name, waiter)
) STRICT;
CREATE INDEX waiters_name ON waiters (name);
CREATE INDEX waiters_handle ON waiters (handle);
`

// create makes the file complete under another name and then renames it to path:
// no process ever sees half of it, and of two who create at once one wins. Only
// a bump goes on from the mark of a file that is gone.
func create(ctx context.Context, path string, h host, bumps bool) error {
	dir := filepath.Dir(path)
	if err := localOnly(existing(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if target, err := os.Readlink(path); err == nil {
		return errors.New("it is a symbolic link to " + target + ", which does not exist; create the file there")
	}
	counter, err := remains(path, bumps)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process created it meanwhile
	}
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "."+filepath.Base(path)+".new-"+rand.Text())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
			os.Remove(tmp + suffix) // after the rename there is none
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	m, err := openMark(path, true)
	if err != nil {
		return err
	}
	defer m.close()
	if err := fill(ctx, tmp, h, counter, m.inode); err != nil {
		return err
	}
	if err := giveName(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// remains looks at what a file that is gone has left beside path, and returns
// its counter. It never makes a file anew as if nothing had been: what SQLite
// would replay into it are pages of another file, and holders of the old one may
// be at work, for up to one length, unknown to a new one.
func remains(path string, bumps bool) (counter int64, err error) {
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if _, err := os.Lstat(path + suffix); err == nil {
			return 0, orThere(path, fmt.Errorf("%s%s is there without it: the file was removed alone, and what was not yet written back to it would be replayed into a new one. "+
				"Nothing was changed; stop its users and put the file back, or move %s%s away too", path, suffix, path, suffix))
		}
	}
	counter, err = leftMark(path)
	if err == nil && counter > 0 && !bumps {
		err = orThere(path, fmt.Errorf("it was removed after %d tokens were handed out (says the mark beside it), and its holders may still be at work. "+
			"Nothing was changed; put it back, or end its holders, or let the longest of their leases run out, and then: stint bump --authority %s", counter, urlOf(path)))
	}
	return counter, err
}

// orThere is fs.ErrExist when path is there by now, else err.
func orThere(path string, err error) error {
	if _, e := os.Lstat(path); e == nil {
		return fs.ErrExist
	}
	return broken(err)
}

// existing is dir, or the first folder above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func fill(ctx context.Context, tmp string, h host, counter, mark int64) error {
	i, err := inodeOf(tmp)
	if err != nil {
		return err
	}
	c, err := openConn(ctx, tmp)
	if err != nil {
		return err
	}
	defer c.close()
	// In one rollback-journal transaction, so that the marks are in the file's
	// header before WAL begins.
	if err := c.Exec(`BEGIN IMMEDIATE; PRAGMA application_id = 1398034004; PRAGMA user_version = 1;` + schema); err != nil {
		return err
	}
	if err := c.exec(`INSERT INTO authority VALUES (1, ?, ?, ?, ?, ?, ?)`, counter, h.boot, h.timens, i.dev, i.ino, mark); err != nil {
		return err
	}
	return c.Exec(`COMMIT; PRAGMA journal_mode = WAL`)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// sameMode gives SQLite's side files the mode of the file, best effort: they
// are made with the umask's.
func sameMode(path string) {
	st, err := os.Stat(path)
	if err != nil {
		return
	}
	for _, suffix := range []string{"-wal", "-shm", "-mark"} {
		_ = os.Chmod(path+suffix, st.Mode().Perm()) // another user's file stays as it is
	}
}
