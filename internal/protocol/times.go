package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
)

// The bounds that the margin pays for.
const (
	// RateError is the most that a clock may run fast or slow, as one part in so
	// many: 1/1000 is a hundred times what a working quartz clock shows.
	RateError = 1000
	// StopLatency is what a holder needs to notice that its time has come.
	StopLatency = 2 * time.Millisecond
)

// Times are the durations of a lease.
type Times struct {
	Length  time.Duration // until the authority lets go
	Margin  time.Duration // from the stop time to that
	Renew   time.Duration // from one renewal to the next
	Timeout time.Duration // of one request
}

// MaxTimeout is the most that one request is given by default: a lease of a day
// is no reason to wait an hour for an authority that does not answer.
const MaxTimeout = 5 * time.Second

// ShortestLength is the shortest lease whose default times are safe, in whole
// milliseconds.
const ShortestLength = 11 * time.Millisecond

// WithDefaults fills what is zero: 10 s, and 0.2, 0.3 and 0.15 of the length;
// the last is at most MaxTimeout.
func (t Times) WithDefaults() Times {
	if t.Length == 0 {
		t.Length = 10 * time.Second
	}
	// Divided first: a length near the end of the range must not overflow.
	if t.Margin == 0 {
		t.Margin = t.Length / 10 * 2
	}
	if t.Renew == 0 {
		t.Renew = t.Length / 10 * 3
	}
	if t.Timeout == 0 {
		t.Timeout = min(t.Length/20*3, MaxTimeout)
	}
	return t
}

// LeastMargin is the smallest safe margin: both clocks at their worst rate over
// one length, and the time to stop.
func (t Times) LeastMargin() time.Duration {
	return 2*t.Length/(RateError+1) + StopLatency
}

// Check returns every rule that the times break, in one error.
func (t Times) Check() error {
	if err := authority.CheckLength(t.Length); err != nil {
		if length := (*authority.LengthError)(nil); errors.As(err, &length) && length.Nearest < ShortestLength {
			length.Nearest = ShortestLength
		}
		return err
	}
	var broken []error
	rule := func(ok bool, format string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Errorf(format, args...))
		}
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"margin", t.Margin}, {"renew", t.Renew}, {"timeout", t.Timeout}} {
		rule(d.d > 0 && d.d < t.Length, "%s %v: it has to lie between zero and the lease length %v", d.name, d.d, t.Length)
	}
	if broken != nil {
		return errors.Join(broken...)
	}
	rule(t.Margin >= t.LeastMargin(), "margin %v: at least %v is needed for a lease of %v "+
		"(clocks that differ in rate by up to 1/%d each, and %v to stop)", t.Margin, t.LeastMargin(), t.Length, RateError, StopLatency)
	sum := t.Renew + t.Timeout + t.Margin
	rule(sum < t.Length, "renew %v + timeout %v + margin %v = %v: it has to be less than the lease length %v, "+
		"else one lost renewal ends the lease", t.Renew, t.Timeout, t.Margin, sum, t.Length)
	return errors.Join(broken...)
}
