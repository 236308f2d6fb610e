package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/oksocket"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
	"github.com/stint-dev/stint/fence"
)

// session is one "stint run" from the wait to the release.
type session struct {
	*runFlags
	name  string
	argv  []string
	path  string // of the command
	out   *report.Printer
	up    *upstream // whose service stint itself is
	held  *stint.Lease
	clock authority.BootClock
	began authority.Instant // the command
	asked bool              // a signal to end was passed on to it

	authority authority.Authority
	signals   chan os.Signal
	end       func()    // ends the lease, when nothing of the command is left
	hurry     time.Time // a signal ended the wait: be gone by then
}

const (
	// cleanup bounds what is still tried when the work is over.
	cleanup = 5 * time.Second
	// atOnce bounds the same when a signal ended the wait for the lease.
	atOnce = 700 * time.Millisecond
)

func (o *runFlags) run(name string, argv []string, path string) error {
	s := &session{runFlags: o, name: name, argv: argv, path: path, out: report.NewPrinter(os.Stderr), up: newUpstream()}
	s.out.Quiet, s.out.JSON = o.quiet, o.logFormat == "json"
	s.notify()

	a, err := s.open()
	if err != nil {
		return err
	}
	s.out.Line("authority: %s", describe(a, o.url))

	opts := o.times
	opts.Holder = holder(argv[0])
	waiting := make(chan authority.State, 1)
	opts.Waiting = func(st authority.State) { replace(waiting, st) }
	opts.Retrying = s.retrying()
	opts.Wait = o.wait
	if o.watchdog > 0 { // alive tells it of each turn of the loop that judges the command
		opts.BeatWithin = o.watchdog + 2*s.turn()
	}
	s.authority = a
	client, err := stint.New(a, opts)
	if err != nil {
		_ = a.Close()
		return &report.Problem{Code: report.ExitService, What: "no lease can be taken", Err: err, Data: "nothing was done"}
	}
	lease, err := s.acquire(client, waiting)
	if err == nil {
		err = s.hold(lease)
	}
	s.out.Done()
	s.close(client, a)
	return err
}

// open opens the authority. A signal ends that too.
func (s *session) open() (authority.Authority, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var a authority.Authority // the goroutine's until it is done
	done := make(chan error, 1)
	go func() {
		var err error
		a, err = s.openToRun(ctx)
		done <- err
	}()
	if err := s.await("authority", done, cancel, nil, nil); err != nil {
		return nil, err
	}
	return a, nil
}

// notify catches what is passed on to the command, or ends the wait for the
// lease. A signal that whoever started stint has told it to ignore (nohup)
// stays ignored, by the command too.
func (s *session) notify() {
	s.signals = make(chan os.Signal, 64)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGWINCH} {
		if !signal.Ignored(sig) {
			signal.Notify(s.signals, sig)
		}
	}
	// A reader of standard error that went away must not end stint and leave
	// the command alone: with a handler, a write just fails.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// retrying tells that the authority gives no answer, or a failure, but not for
// each try.
func (s *session) retrying() func(error) {
	var last time.Time // Retrying is called by one goroutine
	return func(err error) {
		if now := time.Now(); now.Sub(last) >= plainEvery {
			last = now
			switch {
			case silent(err):
				s.out.Soon("no answer from the authority, trying again: %v", err)
			case errors.Is(err, authority.ErrBroken):
				s.out.Soon("the authority cannot be used: %v", err)
			default:
				s.out.Soon("the authority failed, trying again: %v", err)
			}
		}
	}
}

// replace puts v into a channel of length one, in place of what is there.
func replace[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// hold runs the command under the lease, which it releases.
func (s *session) hold(lease *stint.Lease) error {
	s.held = lease
	s.out.Line("holding %s with token %d", report.Name(s.name), lease.Token())
	f, claim, err := s.raise(lease)
	if err != nil {
		s.release(lease, err)
		return err
	}
	err = s.work(lease, f, claim)
	s.up.say("STOPPING=1")
	if f != nil {
		f.Close()
	}
	s.release(lease, err)
	return err
}

// work runs the command, unless its work is done already, and records that it is.
func (s *session) work(lease *stint.Lease, f *fenceurl.Store, claim fence.Claim) error {
	if err := s.alreadyDone(f, claim); err != nil {
		return err
	}
	code, err := s.runUnder(lease)
	switch {
	case err != nil:
		return err
	case code != 0:
		return exitCode(code)
	case f != nil:
		err = s.finish(f, claim, true)
	case s.once != "":
		err = s.record(lease)
	}
	if err == nil && !s.asked {
		s.keep(lease)
	}
	return err
}

// runUnder starts the command and guards it. The error is stint's own.
func (s *session) runUnder(lease *stint.Lease) (int, error) {
	g := newGuard(s, lease)
	sock, err := oksocket.Serve(g.answer)
	if err != nil {
		return 0, &report.Problem{Code: report.ExitService, What: "the socket for stint ok cannot be made", Err: err,
			Data: "the command was not started", Do: "check XDG_RUNTIME_DIR and TMPDIR"}
	}
	defer sock.Close()
	if g.dog, err = newWatchdog(s, filepath.Dir(sock.Path), g.clock); err != nil {
		return 0, err
	}
	defer g.dog.close()
	if err := g.startSecond(lease); err != nil {
		return 0, err
	}
	defer g.second.Close()
	if err := lease.Err(); err != nil { // the time since the grant was lost to a pause
		return 0, s.lost(err, "the command was not started")
	}
	child, err := supervise.Start(supervise.Spec{Path: s.path, Argv: s.argv, Terminal: g.terminal,
		Beside: g.second.Pid(), Lifeline: g.second.Lifeline(), Env: s.environment(lease, sock.Path, g.dog)})
	if err != nil {
		return 0, cannotStart(err)
	}
	s.began = s.clock.Now()
	s.up.started("holding " + report.Name(s.name) + fmt.Sprintf(" with token %d", lease.Token()))
	defer func() { s.asked = g.asked != 0 }()
	return g.watch(child)
}

// turn is the longest time between two looks at the command.
func (s *session) turn() time.Duration {
	t := min(s.times.Renew/2, time.Second)
	if s.up.every > 0 { // its manager wants to hear from it
		t = min(t, s.up.every)
	}
	return t
}

// alive is called at each turn while stint does its work.
func (s *session) alive() {
	s.up.alive()
	if s.held != nil && s.watchdog > 0 {
		s.held.Beat()
	}
}

func cannotStart(err error) error {
	p := &report.Problem{Code: supervise.CodeNotExecutable, Err: err, Data: "the command was not started"}
	if e, ok := errors.AsType[*supervise.StartError](err); ok {
		p.Code = e.Code
	}
	return p
}

// stuck is the error of a command that was ended because it gave no sign of life.
func (s *session) stuck(cause error) error {
	return &report.Problem{Code: report.ExitLost, What: "the command of " + report.Name(s.name) + " was ended", Err: cause,
		Data: "the lease was kept until nothing of it was left; what it had written stands",
		Do:   "let it say \"stint beat\" (or WATCHDOG=1 to NOTIFY_SOCKET) more often, or give --watchdog a longer time"}
}

// lost is the error of a lease that ended before its work.
func (s *session) lost(cause error, data string) error {
	p := &report.Problem{Code: report.ExitLost, What: "the lease on " + report.Name(s.name) + " was lost", Err: cause,
		Data: data, Do: "see who has it: stint show " + report.Name(s.name)}
	if errors.Is(cause, authority.ErrBroken) {
		p.Do = "" // there is nobody to ask
	}
	return p
}

// release gives the lease back. If that fails, it runs out by itself; so it is
// not tried for longer than that takes. That a lease which was lost, why, cannot
// be given back either is no news.
func (s *session) release(lease *stint.Lease, why error) {
	left := lease.Status().Left
	if left == 0 {
		return // over already; closing the client gives back what is left of it
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(s.patience(), left))
	defer cancel()
	err := lease.Release(ctx)
	p, ok := errors.AsType[*report.Problem](why)
	if lost := ok && p.Code == report.ExitLost; err != nil && !lost && !errors.Is(err, authority.ErrNotHeld) {
		s.out.Line("the lease could not be released: %v", err)
		s.out.Line("it runs out by itself within %v; until then the next one waits", s.times.TTL)
	}
}

// close gives back what is held and leaves the line, in a bounded time: what the
// authority does not answer in that time runs out by itself.
func (s *session) close(client *stint.Client, a authority.Authority) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.end()
		_ = client.Close()
		_ = a.Close()
	}()
	select {
	case <-done:
	case <-time.After(s.patience()):
	case <-s.signals: // asked once more
	}
}

// patience is how long an end may take from now.
func (s *session) patience() time.Duration {
	if s.hurry.IsZero() {
		return cleanup
	}
	return max(0, time.Until(s.hurry))
}
