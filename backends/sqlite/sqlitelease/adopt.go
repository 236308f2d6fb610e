package sqlitelease

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// identity is what a file says about where and when it was last used.
type identity struct {
	host
	inode
	mark int64 // the inode of the mark beside it
}

// here is the identity that the file has now.
func (a *Authority) here(h host) identity { return identity{h, a.inode, a.mark.inode} }

func (c *conn) identity() (id identity, err error) {
	found := false
	err = c.each(func(s *sqlite3.Stmt) {
		found = true
		id = identity{host{s.ColumnText(0), s.ColumnText(1)}, inode{s.ColumnInt64(2), s.ColumnInt64(3)}, s.ColumnInt64(4)}
	}, `SELECT boot, timens, dev, ino, mark FROM authority`)
	if err == nil && !found {
		err = fmt.Errorf("%w: its record of tokens is missing", sqlite3.CORRUPT)
	}
	return id, err
}

// adopt decides whether the deadlines in the file mean anything to this
// process. Usually a look is enough; after a reboot they are based anew.
func (a *Authority) adopt(ctx context.Context, h host) error {
	var id identity
	var counter int64
	mark := a.mark.read() // first: the counter may go on meanwhile
	err := a.reader.read(ctx, func(c *conn) (err error) {
		if id, err = c.identity(); err == nil {
			counter, _, err = c.number(`SELECT counter FROM authority`)
		}
		return err
	})
	if err != nil {
		return a.explain(err)
	}
	if mark > counter {
		return a.setBack(counter, mark)
	}
	if id == a.here(h) && a.mark.dev == a.inode.dev {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c := a.writer.conn
	if err := c.begin(func() bool { return ctx.Err() == nil }); err != nil {
		return a.explain(err)
	}
	defer c.rollback()
	if id, err = c.identity(); err != nil { // another process may have been first
		return a.explain(err)
	}
	if err := a.judge(id, h); err != nil {
		return err
	}
	if id.boot != h.boot {
		if err := c.rebase(a.clock.Now()); err != nil {
			return a.explain(err)
		}
	}
	if err := c.sign(a.here(h)); err != nil {
		return a.explain(err)
	}
	return a.explain(c.Exec(`COMMIT`))
}

// judge refuses a file whose deadlines or tokens cannot be trusted here.
func (a *Authority) judge(id identity, h host) error {
	switch {
	case id.boot == h.boot && id.timens != h.timens:
		return broken(fmt.Errorf("sqlitelease: %s is in use by processes of another time namespace (%s, this one is in %s): their boot clock reads differently, so a lease would end early or late. "+
			"Nothing was changed; run all users of the file in one time namespace", a.path, orNone(id.timens), orNone(h.timens)))
	case id.ino != a.inode.ino || id.boot == h.boot && id.dev != a.inode.dev:
		// Device numbers are handed out anew at each boot; inodes stay.
		return broken(fmt.Errorf("sqlitelease: %s is a copy, or was restored from one (inode %d, it was written as %d): tokens that were handed out since the copy would be handed out again, and fences would mix up their holders. "+
			"Nothing was changed; make sure that nobody uses the original any more, then raise the counter: stint bump --authority %s", a.path, a.inode.ino, id.ino, urlOf(a.path)))
	case id.mark != a.mark.inode || a.mark.dev != a.inode.dev:
		// Not dev with what was written: one folder is on one device.
		return broken(fmt.Errorf("sqlitelease: %s is not beside its mark (%s): it was moved without it, or it is mounted or linked here without its folder. Through each name others would be granted the same leases. "+
			"Nothing was changed; mount the folder, not the file. If the file was moved or its mark is lost, make sure that nobody uses it by another name, then: stint bump --authority %s",
			a.path, markPath(a.path), urlOf(a.path)))
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// rebase gives every lease that was not released one full length from now, and
// nobody can renew it. Nothing in the file tells how long ago the other boot
// ended, nor that it ended at all: this may be a clone of a machine whose
// holders go on. So each is waited out once, as a stranger would have to.
func (c *conn) rebase(now authority.Instant) error {
	if err := c.exec(`UPDATE leases SET deadline = ? + length, state = 2 WHERE state <> 1`, int64(now)); err != nil {
		return err
	}
	if err := c.exec(`UPDATE leases SET deadline = ? WHERE state = 1`, int64(now)); err != nil {
		return err
	}
	if err := c.exec(`DELETE FROM waiters`); err != nil {
		return err
	}
	return c.exec(`DELETE FROM handles`)
}

func (c *conn) sign(id identity) error {
	return c.exec(`UPDATE authority SET boot = ?, timens = ?, dev = ?, ino = ?, mark = ?`, id.boot, id.timens, id.dev, id.ino, id.mark)
}

// BumpBy is how far Bump raises the counter unless told otherwise: further than
// an authority gets between two backups.
const BumpBy fence.Token = 1_000_000

// Bump raises the token counter of the file at path by n (zero means BumpBy),
// and takes note of where the file lives now. It is what a restored or copied
// file needs before it can be opened. If the file has indeed moved, was set
// back, or comes from another boot, its leases are waited out for one length and cannot be
// renewed; otherwise they go on. A file that is gone, but for its mark, is made
// anew: leases of the old one are unknown to it, so call it when their holders
// have ended or the longest of the leases has run out. It returns the counter before and after.
func Bump(ctx context.Context, path string, n fence.Token) (before, after fence.Token, err error) {
	return bump(ctx, path, n, authority.BootClock{}, hostIdentity)
}

func bump(ctx context.Context, path string, n fence.Token, clock authority.Clock, readHost func() (host, error)) (before, after fence.Token, err error) {
	if n == 0 {
		n = BumpBy
	}
	h, err := readHost()
	if err != nil {
		return 0, 0, fmt.Errorf("sqlitelease: %w", err)
	}
	if path, err = prepare(ctx, path, h, remake); err != nil {
		return 0, 0, err
	}
	a := &Authority{path: path, clock: clock}
	if err := a.connect(ctx, true); err != nil {
		return 0, 0, err
	}
	defer a.disconnect()
	c := a.writer.conn
	if err := c.begin(func() bool { return ctx.Err() == nil }); err != nil {
		return 0, 0, a.explain(err)
	}
	defer c.rollback()
	was, _, err := c.number(`SELECT counter FROM authority`)
	if err != nil {
		return 0, 0, a.explain(err)
	}
	m := a.mark.read()
	was = max(was, m) // set back: what was handed out since counts
	if n < 0 || fence.Token(was) > fence.MaxToken-n {
		return 0, 0, fmt.Errorf("sqlitelease: %w: the counter is at %d, raising it by %d leaves the range 0 to %d; nothing was changed", authority.ErrInvalid, was, n, fence.MaxToken)
	}
	if err := a.raise(was+int64(n), m, h); err != nil {
		return 0, 0, a.explain(err)
	}
	a.mark.raise(was + int64(n))
	return fence.Token(was), fence.Token(was) + n, nil
}

// raise sets the counter, and bases the leases anew if the file is not where, or
// not as, it was left.
func (a *Authority) raise(counter, mark int64, h host) error {
	c := a.writer.conn
	id, err := c.identity()
	if err != nil {
		return err
	}
	was, _, err := c.number(`SELECT counter FROM authority`)
	if err != nil {
		return err
	}
	if id != a.here(h) || mark > was {
		if err := c.rebase(a.clock.Now()); err != nil {
			return err
		}
		if err := c.sign(a.here(h)); err != nil {
			return err
		}
	}
	if err := c.exec(`UPDATE authority SET counter = ?`, counter); err != nil {
		return err
	}
	return c.Exec(`COMMIT`)
}
