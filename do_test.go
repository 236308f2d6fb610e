package stint

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

func TestDoByURLRunsUnderALeaseAndSaysWhatFailed(t *testing.T) {
	failed := errors.New("no paper")
	var seen *Lease
	err := Do(t.Context(), "mem:", "job", func(ctx context.Context, l *Lease) error {
		if l.Err() != nil || ctx.Err() != nil || l.Token() != 1 || l.Name() != "job" {
			t.Errorf("inside: %v, %v, token %d of %q", l.Err(), ctx.Err(), l.Token(), l.Name())
		}
		seen = l
		return failed
	})
	if !errors.Is(err, failed) || !errors.Is(seen.Err(), ErrReleased) {
		t.Errorf("Do says %v; the lease %v", err, seen.Err())
	}
	for url, name := range map[string]string{"": "job", "nosuch://u:hunter2@h": "job", "mem:": ""} {
		err := Do(t.Context(), url, name, func(context.Context, *Lease) error {
			t.Errorf("%q %q: the work was begun", url, name)
			return nil
		})
		if !errors.Is(err, authority.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q %q: %v", url, name, err)
		}
	}
}

func TestDoByURLLeavesNothingBehindWhenItsWorkPanics(t *testing.T) {
	before := goruntime.NumGoroutine()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = Do(t.Context(), "mem:", "job", func(context.Context, *Lease) error { panic("paper jam") })
	}()
	for end := time.Now().Add(20 * time.Second); goruntime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left", goruntime.NumGoroutine()-before)
		}
	}
}
