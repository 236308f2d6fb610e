package warden

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
	"github.com/stint-dev/stint/internal/clock"
)

// pipeFd is where a guard process finds its end of the pipe. The next one is the
// lifeline's, which it has only to keep open.
const pipeFd = 3

// Main is the guard process. It returns its exit code.
func Main() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	c := clock.Boot()
	alarm, err := c.NewAlarm()
	if err != nil {
		return report.ExitService // stint sees that it ended, and tries another
	}
	in, err := newInbox(pipeFd)
	if err != nil {
		return report.ExitService
	}
	go in.read()
	w := watch{clock: c, out: report.NewPrinter(os.Stderr)}
	for {
		select {
		case <-alarm.C():
		case <-in.news:
		}
		// After a freeze both are ready: what stint has said meanwhile goes before
		// what the clock says.
		orders, dead := in.drain()
		next, over := w.step(orders, dead)
		if over {
			return 0
		}
		if next != 0 {
			alarm.Set(next)
		}
	}
}

// inbox reads stint's lines. All reading is under mu, so that drain misses
// nothing that another goroutine has taken out of the pipe.
type inbox struct {
	fd   int
	conn syscall.RawConn
	news chan struct{}

	mu     sync.Mutex
	rest   []byte
	orders Orders
	dead   bool
}

// newInbox takes over fd.
func newInbox(fd int) (*inbox, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	conn, err := os.NewFile(uintptr(fd), "stint").SyscallConn()
	return &inbox{fd: fd, conn: conn, news: make(chan struct{}, 1)}, err
}

// read waits for what comes.
func (in *inbox) read() {
	var err error
	for err == nil {
		err = in.conn.Read(func(uintptr) bool {
			_, dead := in.drain()
			select {
			case in.news <- struct{}{}:
			default:
			}
			return dead
		})
		if _, dead := in.drain(); dead {
			return
		}
	}
	in.mu.Lock() // cannot be read at all
	in.dead = true
	in.mu.Unlock()
	in.news <- struct{}{}
}

// drain reads what there is, without waiting.
func (in *inbox) drain() (Orders, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := make([]byte, 8192)
	for !in.dead {
		n, err := unix.Read(in.fd, b)
		if err == unix.EAGAIN || err == unix.EINTR {
			break
		}
		if err != nil || n == 0 {
			in.dead = true
			break
		}
		in.rest = append(in.rest, b[:n]...)
		in.parse()
	}
	return in.orders, in.dead
}

func (in *inbox) parse() {
	for {
		line, rest, whole := bytes.Cut(in.rest, []byte("\n"))
		if !whole {
			return
		}
		in.rest = rest
		// The hint was handed out by its pointer: a new one takes its place.
		o, hint := in.orders, in.orders.Hint
		o.Hint = nil
		_ = json.Unmarshal(line, &o) // of the same binary
		if o.Hint == nil {
			o.Hint = hint
		}
		in.orders = o
	}
}

// watch decides what a guard process does. Whatever wakes it, step looks at all
// there is.
type watch struct {
	clock  clock.Clock
	out    *report.Printer
	remote *supervise.Remote

	told   bool // it was this process that told the command to stop
	killAt authority.Instant
	killed bool
	empty  authority.Instant // since when nothing of the command is found; 0: something is
}

const (
	// again is the time between two looks while the command is being ended.
	again = 20 * time.Millisecond
	// seldom is that time where looking often would help nobody.
	seldom = 250 * time.Millisecond
	// settled is how long nothing must have been found. What stint was just
	// starting when it was killed shows whose it is only a moment later.
	settled = 200 * time.Millisecond
)

// step returns when to look again, or that there is nothing left to do.
func (w *watch) step(o Orders, dead bool) (next authority.Instant, over bool) {
	if o.Done || o.Mark == "" && dead {
		return 0, true
	}
	if o.Mark == "" {
		return 0, false
	}
	if w.remote == nil {
		w.remote = supervise.NewRemote(o.Mark)
		w.out.JSON = o.JSON
	}
	if o.Hint != nil {
		w.remote.Told(*o.Hint)
	}
	now := w.clock.Now()
	t := timesOf(o)
	switch {
	case w.told || w.killed:
	case dead:
		w.tell(o, min(now.Add(o.Grace), t.kill), "was killed")
	case now >= t.term && !o.Told:
		w.tell(o, t.kill, "does not answer, and the lease was not renewed")
	case now >= t.kill:
		w.killAt, w.told = t.kill, true
	case o.Told:
		return t.kill, false
	default:
		return t.term, false
	}
	return w.end(o, dead)
}

// times are when the guard process acts: always after stint would have, and
// before the stop time.
type times struct{ term, kill authority.Instant }

func timesOf(o Orders) times {
	t := times{kill: o.Stop.Add(-o.Lead / 2)}
	t.term = min(t.kill, o.Stop.Add(-o.Grace/2))
	return t
}

// tell asks the command to stop.
func (w *watch) tell(o Orders, killAt authority.Instant, why string) {
	w.told, w.killAt = true, killAt
	if w.remote.Terminate() > 0 {
		w.out.Soon("the stint run of %s %s: its guard process tells the command to stop (TERM), and kills it in %v",
			report.Name(o.Name), why, report.Short(max(0, killAt.Sub(w.clock.Now()))))
	}
}

// end sees the command to its end. While stint lives, frozen or not, something
// may still be started.
func (w *watch) end(o Orders, dead bool) (next authority.Instant, over bool) {
	now := w.clock.Now()
	left := 0
	if now >= w.killAt {
		left = w.remote.Kill()
		if left > 0 && !w.killed {
			w.killed = true
			w.out.Soon("the guard process of %s has killed the command", report.Name(o.Name))
		}
	} else {
		left = len(w.remote.Left())
	}
	switch {
	case left > 0:
		w.empty = 0
	case w.empty == 0:
		w.empty = now
	case dead && now.Sub(w.empty) >= settled:
		w.remote.Forget()
		return 0, true
	}
	if now.Sub(max(w.killAt, w.empty)) > 2*time.Second { // stint is frozen, or something cannot be killed
		return now.Add(seldom), false
	}
	return now.Add(again), false
}
