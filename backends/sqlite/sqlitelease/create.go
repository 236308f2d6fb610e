package sqlitelease

import (
	"context"
	"crypto/rand"
	"errors"
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
	ino     INTEGER NOT NULL
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

// create makes the file complete under another name and then links it to path:
// no process ever sees half of it, and of two who create at once one wins.
func create(ctx context.Context, path string, h host) error {
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
	tmp := filepath.Join(dir, "."+filepath.Base(path)+".new-"+rand.Text())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
			os.Remove(tmp + suffix) // after the link, only this name of it goes
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	counter, err := leftMark(path)
	if err != nil {
		return err
	}
	if err := fill(ctx, tmp, h, counter); err != nil {
		return err
	}
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
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

func fill(ctx context.Context, tmp string, h host, counter int64) error {
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
	if err := c.exec(`INSERT INTO authority VALUES (1, ?, ?, ?, ?, ?)`, counter, h.boot, h.timens, i.dev, i.ino); err != nil {
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
