// Package sqlitelease is the embedded authority: one SQLite file, any number of
// processes of one host, no server.
//
//	a, err := sqlitelease.Open(ctx, "/var/lib/stint/leases.db", sqlitelease.Options{})
//
// or, by URL, authority.Open(ctx, "sqlite:///var/lib/stint/leases.db").
//
// Leases are judged by the host's boot clock, which never steps and counts the
// time that the machine was suspended. The clock is read inside the write
// transaction, so a renewal that waited for the lock past its deadline is
// refused. All names share one token counter, which is never deleted.
//
// The file belongs to one host and has one name: it records the boot, the time
// namespace, its own inode, and that of leases.db-mark beside it, where the
// highest token stands. So a copy, or a backup that was restored over it, is
// refused until Bump has raised the counter, and so is a new file beside the mark
// of one that was deleted. A hard link, and a file that was mounted without its
// folder, are refused too: each name has a -wal of its own. (A backup that brings back file and mark in place is not noticed:
// run Bump after every restore.) Network file systems are refused.
//
// One thing it cannot help: a process that is stopped inside SQLite's own write
// transaction stalls every lease of the file until it goes on or is killed. The
// error that the others get says so.
//
// It uses github.com/ncruces/go-sqlite3 without database/sql, so it takes no
// driver name from the program.
package sqlitelease

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

func init() {
	authority.Register("sqlite", func(ctx context.Context, u *url.URL) (authority.Authority, error) {
		path, err := pathOf(u)
		if err != nil {
			return nil, err
		}
		return Open(ctx, path, Options{})
	})
}

// Options of Open. The zero value is what production uses.
type Options struct {
	// Clock is what leases are judged by; nil means authority.BootClock. Every
	// handle of one file must use the same. It is for tests.
	Clock authority.Clock
	// MustExist refuses to create the file: for commands that only look.
	MustExist bool
}

// Authority is an open file. It is safe for concurrent use.
type Authority struct {
	path  string
	inode inode    // of the file that is open
	sides [2]inode // of its -wal and -shm
	clock authority.Clock
	paced bool // clock is the host's: timers can follow it
	close chan struct{}
	once  sync.Once

	mu     sync.Mutex // guards closed against calls.Add
	closed bool
	calls  sync.WaitGroup // calls in flight

	mark   mark
	writer writer
	reader reader
	queue  queue
}

var (
	_ authority.Queuer    = (*Authority)(nil)
	_ authority.Lister    = (*Authority)(nil)
	_ authority.Timing    = (*Authority)(nil)
	_ authority.Describer = (*Authority)(nil)
)

// Open opens the file at path, and creates it, with its folder, if it is
// missing. A relative path is taken from the working directory.
func Open(ctx context.Context, path string, o Options) (*Authority, error) {
	return open(ctx, path, o, hostIdentity)
}

// open takes the host's identity as an argument, for tests.
func open(ctx context.Context, path string, o Options, host func() (host, error)) (*Authority, error) {
	if o.Clock == nil {
		o.Clock = authority.BootClock{}
	}
	_, paced := o.Clock.(authority.BootClock)
	if !(authority.BootClock{}).HostWide() {
		return nil, fmt.Errorf("sqlitelease: this system has no clock that all its processes share, so they cannot agree on when a lease ends; use another authority")
	}
	h, err := host()
	if err != nil {
		return nil, fmt.Errorf("sqlitelease: %w", err)
	}
	without := makeNew
	if o.MustExist {
		without = refuse
	}
	path, err = prepare(ctx, path, h, without)
	if err != nil {
		return nil, err
	}
	a := &Authority{path: path, clock: o.Clock, paced: paced, close: make(chan struct{})}
	if err := a.connect(ctx, false); err != nil {
		return nil, err
	}
	if err := a.adopt(ctx, h); err != nil {
		a.disconnect()
		return nil, err
	}
	if a.sides, err = sidesOf(a.path); err != nil { // they are there while anybody has the file open
		a.disconnect()
		return nil, a.replaced()
	}
	a.queue.init(a)
	a.writer.start(a)
	return a, nil
}

// connect opens the file and its mark, which only a bump makes anew.
func (a *Authority) connect(ctx context.Context, makeMark bool) error {
	var err error
	if a.inode, err = inodeOf(a.path); err != nil {
		return fmt.Errorf("sqlitelease: %w", err)
	}
	if a.mark, err = openMark(a.path, makeMark); err != nil {
		return fmt.Errorf("sqlitelease: the mark beside the leases: %w", err)
	}
	if makeMark {
		if err := syncDir(filepath.Dir(a.path)); err != nil { // the file will say where its mark is
			a.mark.close()
			return fmt.Errorf("sqlitelease: %w", err)
		}
	}
	w, err := openConn(ctx, a.path)
	if err != nil {
		a.mark.close()
		return a.explain(err)
	}
	// The writer's tries for the lock are counted out in begin.
	err = w.BusyHandler(nil)
	var r *conn
	if err == nil {
		r, err = openConn(ctx, a.path)
	}
	if err != nil {
		w.close()
		a.mark.close()
		return a.explain(err)
	}
	a.writer.conn, a.reader = w, reader{make(chan *conn, 1)}
	a.reader.free <- r
	sameMode(a.path)
	return nil
}

func (a *Authority) disconnect() {
	(<-a.reader.free).close()
	a.writer.conn.close()
	a.mark.close()
}

// enter counts a call in flight, unless a is closed.
func (a *Authority) enter() (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, fmt.Errorf("sqlitelease: %w", authority.ErrClosed)
	}
	a.calls.Add(1)
	return a.calls.Done, nil
}

// Close waits for the calls in flight and closes the file. It releases no
// lease. Calls to Wait end with ErrClosed.
func (a *Authority) Close() error {
	a.once.Do(func() {
		a.mu.Lock()
		a.closed = true
		close(a.close)
		a.mu.Unlock()
		a.calls.Wait()
		a.queue.stop()
		a.writer.stop()
		a.disconnect()
	})
	return nil
}

// Describe implements authority.Describer.
func (a *Authority) Describe() string { return "sqlite " + a.path + " (this host only)" }

// Lateness implements authority.Timing. Usually the next in line is woken at
// once; a dead or stopped process at the head of the line, or a lost hint, adds
// up to this much. Not counted is a process that is stopped inside a write
// transaction.
func (a *Authority) Lateness() time.Duration { return aliveFor + 4*tick }

// errBusy: the write lock could not be had in time.
var errBusy = errors.New("the write lock could not be had in time")
