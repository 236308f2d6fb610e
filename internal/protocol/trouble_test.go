package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSilenceDoesNotHideWhatWasSaid: a try that is cut off by its time is often
// the last one of all, and "no answer" alone would send people the wrong way.
func TestSilenceDoesNotHideWhatWasSaid(t *testing.T) {
	password, full := errors.New("refuses the password"), errors.New("out of space")
	late, unsent := fmt.Errorf("no answer in time: %w", context.DeadlineExceeded), fmt.Errorf("too many: %w", ErrNotSent)
	for want, all := range map[string][]error{
		"refuses the password": {late, password},
		"out of space":         {password, late, full},
		unsent.Error():         {late, unsent},
		late.Error() + "; before that: out of space":   {password, full, late},
		unsent.Error() + "; before that: out of space": {full, late, unsent},
	} {
		var got error
		for _, err := range all {
			got = since(got, err)
		}
		if got.Error() != want {
			t.Errorf("%v: got %q, want %q", all, got, want)
		}
		if last := all[len(all)-1]; !errors.Is(got, last) {
			t.Errorf("%v: %v does not match the last one", all, got)
		}
	}
	if got := since(full, late); errors.Is(got, full) {
		t.Errorf("%v matches what was said of an earlier request", got)
	}
}

// TestAnAcquireAndALeaseEndWithTheReason although their last request had no
// answer.
func TestAnAcquireAndALeaseEndWithTheReason(t *testing.T) {
	password := errors.New("refuses the password")
	late := fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	w := NewHolder(Config{Name: "job", Prefix: "a", Wait: true, WaitUntil: at(6 * s), Times: Times{}.WithDefaults()})
	started := w.Step(0, Start{})
	ended := func(h *Holder, last []Effect, op Op, until time.Duration) End {
		for now, n := time.Duration(0), 0; now <= until; now += 100 * time.Millisecond {
			for _, out := range [][]Effect{last, h.Step(at(now), Tick{})} {
				if e, ok := find[Ended](out); ok {
					return e.End
				}
				if send, ok := find[Send](out); ok && send.Op == op {
					err := password
					if n++; n > 1 {
						err = late
					}
					last = h.Step(at(now), Answer{Op: op, Try: send.Try, Err: err})
				}
			}
		}
		t.Fatal("it never ended")
		return End{}
	}
	for what, e := range map[string]End{"acquire": ended(w, started, OpAcquire, 7*s), "lease": ended(held(t), nil, OpRenew, 9*s)} {
		if e.Err == nil || !strings.HasSuffix(e.Err.Error(), "; before that: refuses the password") || !errors.Is(e.Err, late) {
			t.Errorf("%s: ended by %v", what, e)
		}
	}
}
