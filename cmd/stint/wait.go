package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

// acquire takes the lease, or says who has it. A signal ends it at once and
// leaves no waiter behind.
func (s *session) acquire(client *stint.Client, waiting <-chan authority.State) (*stint.Lease, error) {
	defer s.out.Done()
	// The context must outlive the wait: it ends the lease too.
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	take := client.Acquire
	if s.noWait || s.waitGiven && s.wait == 0 {
		take = client.TryAcquire
	}
	var lease *stint.Lease
	done := make(chan error, 1)
	go func() {
		l, err := take(ctx, s.name)
		lease = l
		done <- err
	}()
	err := s.await("authority", done, cancel, newWaitLine(s.out, s.name), waiting)
	if err != nil {
		return nil, s.notAcquired(err)
	}
	return lease, nil
}

// unheard is how long nothing may come from the authority or the store before
// that is said.
const unheard = 1500 * time.Millisecond

// await waits for done. A signal cancels what runs, and the error is then the
// signal's exit code; a second signal does not wait any longer. When nothing
// comes from whom, that is said.
func (s *session) await(whom string, done <-chan error, cancel func(), w *waitLine, waiting <-chan authority.State) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	quiet := time.After(unheard)
	var end error // what to return in place of done's
	var late <-chan time.Time
	for {
		select {
		case <-late:
			return end
		case err := <-done:
			if end != nil {
				return end
			}
			return err
		case sig := <-s.signals:
			c := endedBy(sig)
			if c != 0 && late != nil {
				return end
			}
			if c != 0 {
				end = c
				s.hurry, late = time.Now().Add(atOnce), time.After(atOnce/2)
				cancel()
			}
		case st := <-waiting:
			quiet = nil
			if end == nil && insideOf(st) {
				end = s.inItself()
				cancel()
			}
			w.heard(st)
		case <-quiet:
			s.out.Soon("the %s has not answered yet", whom)
		case <-tick.C:
			s.alive()
			w.draw()
		}
	}
}

// inItself refuses a wait for what cannot be free before this wait has ended.
func (s *session) inItself() error {
	return &report.Problem{Code: report.ExitUsage,
		What: report.Name(s.name) + " is held by the stint run that this one is inside of: it would wait for itself for ever",
		Data: "the command was not started", Do: "run the command without a second stint run, or under another name"}
}

func (s *session) notAcquired(err error) error {
	if _, ok := errors.AsType[exitCode](err); ok {
		return err
	}
	if p, ok := errors.AsType[*report.Problem](err); ok {
		return p
	}
	p := &report.Problem{Code: report.ExitService, What: "the lease on " + report.Name(s.name) + " was not taken", Err: err,
		Data: "the command was not started", Do: "check the authority, then try again"}
	switch {
	case errors.Is(err, authority.ErrHeld):
		p.Code = s.conflictCode
		p.What, p.Do = "", "wait for it with -w, or see: stint show "+report.Name(s.name)
		if s.conflictCode == 0 { // that is an end, not an error: with --quiet, cron has nothing to mail
			s.out.Line("%v: %s", err, p.Data)
		} else {
			s.out.Error(p)
		}
		return exitCode(s.conflictCode)
	case errors.Is(err, authority.ErrInvalid):
		p.Code, p.Do = report.ExitUsage, "see: stint run --help"
	case errors.Is(err, authority.ErrBroken):
		p.Do = "" // it says so itself, and trying again does not help
	}
	return p
}

// endedBy is the exit code of a signal that ends stint while there is no
// command to pass it on to, or 0.
func endedBy(sig os.Signal) exitCode {
	switch n, _ := sig.(syscall.Signal); n {
	case syscall.SIGCONT, syscall.SIGWINCH:
		return 0
	default:
		return exitCode(128 + int(n))
	}
}

// waitLine tells whom stint waits for: one line that is redrawn on a terminal,
// else a line for each new holder and one every 30 s.
type waitLine struct {
	out   *report.Printer
	name  string
	begun time.Time
	state authority.State
	at    time.Time // when state was heard
	told  time.Time // when a plain line was written
}

const plainEvery = 30 * time.Second

func newWaitLine(out *report.Printer, name string) *waitLine {
	return &waitLine{out: out, name: name, begun: time.Now()}
}

func (w *waitLine) heard(st authority.State) {
	changed := st.Grant != w.state.Grant || st.Held != w.state.Held
	w.state, w.at = st, time.Now()
	if w.out.Interactive() {
		w.draw()
		return
	}
	if changed || time.Since(w.told) >= plainEvery {
		w.told = time.Now()
		w.out.Line("waiting for %s", w.text())
	}
}

func (w *waitLine) draw() {
	if w == nil || w.at.IsZero() {
		return
	}
	w.out.Live("waiting %s for %s", time.Since(w.begun).Round(time.Second), w.text())
}

func (w *waitLine) text() string {
	s := w.state
	if !s.Held {
		return report.Name(w.name) + ": free, those first in line are served"
	}
	until := w.at.Add(s.Left)
	return report.Name(w.name) + ": held by " + report.Clean(s.Holder) + fmt.Sprintf(" (token %d) since ", s.Grant.Token) +
		report.Since(s.Since, w.at) + ", until " + report.Since(until, w.at) + " unless renewed"
}
