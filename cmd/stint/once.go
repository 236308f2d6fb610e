package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/fence"
)

// --once KEY: a job that is recorded done is not started again. With --fence the
// record lies in the fence's store, and is written in the transaction that sets
// DONE: an older holder cannot write it, and no commit falls between the two.
//
// Without a fence the record is a lease of its own at the authority, that nobody
// renews or gives back: it is there for --once-for, whatever becomes of stint.
// Between the command's end and the record there is a moment; who is killed in it
// has worked and left no record.

// mostKey is the longest KEY, in bytes: what every database keeps in a key.
const mostKey = 255

// defaultOnceFor is how long the authority keeps a record.
const defaultOnceFor = 7 * 24 * time.Hour

// checkOnce refuses what cannot be meant.
func (o *runFlags) checkOnce(name string) error {
	if o.onceFor == 0 {
		o.onceFor = defaultOnceFor
	}
	switch {
	case o.once == "":
		return nil
	case fence.CheckName(o.once) != nil:
		return report.Usage(fmt.Sprintf("--once %.40q: the key is text without control characters", o.once), "give one like 2026-11-29")
	case len(o.once) > mostKey:
		return report.Usage(fmt.Sprintf("--once: the key is %d bytes long", len(o.once)), fmt.Sprintf("give one of at most %d", mostKey))
	case o.fence == "" && fence.CheckName(recordName(name, o.once)) != nil:
		return report.Usage("--once: NAME and the key are too long together", fmt.Sprintf("they share %d bytes", fence.MaxName))
	}
	if err := authority.CheckLength(o.onceFor); err != nil {
		return report.Usage("--once-for: "+err.Error(), "give one from 1s to 8784h")
	}
	return nil
}

// recordName is the lease that stands for a job that is done.
func recordName(name, key string) string { return name + "@done:" + key }

// alreadyDone asks for the record, under the lease, and after the fence was
// raised: nobody else can write it from here on. Then nothing is to be started,
// and the error is the exit code.
func (s *session) alreadyDone(f *fenceurl.Store, claim fence.Claim) error {
	if s.once == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(s.held.Context())
	defer cancel()
	var by string // the goroutine's until it is done
	done := make(chan error, 1)
	go func() {
		var err error
		if f != nil {
			by, err = f.RecordedBy(ctx, s.name, s.once)
		} else {
			by, err = s.recordedBy(ctx)
		}
		done <- err
	}()
	if err := s.await("record of --once", done, cancel, nil, nil); err != nil {
		if _, ended := errors.AsType[exitCode](err); ended {
			return err
		}
		if lost := s.held.Err(); lost != nil {
			return s.lost(lost, "the command was not started")
		}
		return &report.Problem{Code: report.ExitService, What: "it could not be read whether " + s.once + " is done", Err: err,
			Data: "the command was not started", Do: "run it again"}
	}
	if by == "" {
		return nil
	}
	s.out.Line("%s of %s is done already, %s: the command was not started", s.once, report.Name(s.name), report.Clean(by))
	if f != nil { // the raise has made the claim RUNNING again
		if err := s.finish(f, claim, false); err != nil {
			return err
		}
	}
	return exitCode(s.skipCode)
}

// recordedBy asks the authority. "": nobody has.
func (s *session) recordedBy(ctx context.Context) (string, error) {
	var last error
	for {
		one, cancel := context.WithTimeout(ctx, s.times.Timeout)
		st, err := s.authority.Inspect(one, recordName(s.name, s.once))
		cancel()
		switch {
		case err == nil && st.Held:
			return fmt.Sprintf("by %s since %s", st.Holder, report.Since(st.Since, time.Now())), nil
		case err == nil:
			return "", nil
		case definite(err):
			return "", err
		}
		last = err
		select {
		case <-ctx.Done():
			return "", last
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func definite(err error) bool {
	return errors.Is(err, authority.ErrInvalid) || errors.Is(err, authority.ErrBroken) || errors.Is(err, authority.ErrClosed)
}

// record writes that the job is done, at the authority. The command has worked
// either way.
func (s *session) record(lease *stint.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(cleanup, s.times.TTL))
	defer cancel()
	r := authority.Request{Name: recordName(s.name, s.once), Length: s.onceFor, Nonce: rand.Text()[:16], Holder: holder(s.argv[0])}
	for {
		one, cancel := context.WithTimeout(ctx, s.times.Timeout)
		_, err := s.authority.Acquire(one, r)
		cancel()
		if err == nil {
			return nil
		}
		if held, ok := errors.AsType[*authority.HeldError](err); ok {
			return s.lost(fmt.Errorf("%s was recorded done meanwhile by %s (%w)", s.once, report.Clean(held.State.Holder), err),
				"the command ended with exit code 0, and so did another one of the same key: the lease had been given to it")
		}
		if definite(err) || ctx.Err() != nil {
			return s.notRecorded(err)
		}
		s.held.Beat()
		select {
		case <-ctx.Done():
			return s.notRecorded(err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *session) notRecorded(err error) error {
	return &report.Problem{Code: report.ExitService, What: s.once + " could not be recorded done", Err: err,
		Data: "the command ended with exit code 0 and its work stands; perhaps there is no record, and then the next run does it again",
		Do:   "look for " + recordName(s.name, s.once) + " in: stint ls"}
}

// keep holds the lease until its work began --at-least ago, so that nobody whose
// clock is late does the same work once more.
func (s *session) keep(lease *stint.Lease) {
	until := s.began.Add(s.atLeast)
	if s.atLeast == 0 || s.clock.Now() >= until {
		return
	}
	left := until.Sub(s.clock.Now())
	s.out.Line("the command is done; the lease on %s is kept until %s (--at-least %v)",
		report.Name(s.name), time.Now().Add(left).Format("15:04:05"), s.atLeast)
	s.up.say("STATUS=done, keeping the lease")
	for s.clock.Now() < until {
		s.alive()
		select {
		case <-lease.Context().Done():
			s.out.Line("the lease on %s was lost while it was kept: %v; the command had ended with exit code 0 before",
				report.Name(s.name), lease.Err())
			return
		case sig := <-s.signals:
			if endedBy(sig) != 0 && !isUser(sig) {
				s.out.Line("told to stop (%v): the lease is given back %v before --at-least is over",
					sig, report.Short(until.Sub(s.clock.Now())))
				return
			}
		case <-time.After(min(s.turn(), max(time.Millisecond, until.Sub(s.clock.Now())))):
		}
	}
}
