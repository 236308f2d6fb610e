package main

import (
	"context"
	"errors"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/fence"
)

// raise is the holder's first act at the store, before the command starts.
func (s *session) raise(lease *stint.Lease) (*fenceurl.Store, fence.Claim, error) {
	if s.fence == "" {
		return nil, fence.Claim{}, nil
	}
	ctx, cancel := context.WithCancel(lease.Context())
	defer cancel()
	var f *fenceurl.Store // these two belong to the goroutine until it is done
	var claim fence.Claim
	done := make(chan error, 1)
	go func() {
		var err error
		if f, err = fenceurl.Open(ctx, s.fence); err == nil {
			claim, err = f.Raise(ctx, s.name, lease.Grant())
		}
		done <- err
	}()
	err := s.await("store of the fence", done, cancel, nil, nil)
	if err == nil {
		return f, claim, nil
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return nil, fence.Claim{}, code // it may not be done yet
	}
	if f != nil {
		f.Close()
	}
	if lost := lease.Err(); lost != nil {
		return nil, claim, s.lost(lost, "the command was not started")
	}
	p := &report.Problem{Code: report.ExitService, What: "the fence could not be raised", Err: err,
		Data: "the command was not started, and the lease is given back", Do: "check --fence and STINT_FENCE"}
	if errors.Is(err, authority.ErrInvalid) {
		p.Code = report.ExitConfig
	}
	return nil, claim, p
}

// finish marks the job DONE, and records the key of --once with it. A store that
// cannot be reached for a moment (its server is restarted) is tried again while the
// lease is kept. started: the command has done its work either way.
func (s *session) finish(f *fenceurl.Store, claim fence.Claim, started bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), max(cleanup, min(s.times.TTL, time.Minute)))
	defer cancel()
	if err := f.Done(ctx, claim, s.once, holder(s.argv[0]), s.held.Beat); err != nil {
		return s.notDone(err, started)
	}
	return nil
}

func (s *session) notDone(err error, started bool) error {
	stale := errors.Is(err, fence.ErrStale)
	switch {
	case stale && started:
		return s.lost(err, "the command ended with exit code 0, but another holder was admitted to the store before that: what it wrote late was refused")
	case stale:
		return s.lost(err, "the command was not started")
	}
	p := &report.Problem{Code: report.ExitService, What: "the job could not be marked DONE", Err: err,
		Data: "the command ended with exit code 0 and its writes stand; its claim stays RUNNING, so a sweeper will give the job out again",
		Do:   "run the job again, or finish the claim by hand"}
	if !started {
		p.Data = "the command was not started, since " + s.once + " is done; the claim stays RUNNING"
	}
	return p
}
