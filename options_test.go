package stint

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
)

func TestUnsafeTimesAreRefusedWithTheRuleThatTheyBreak(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name string
		o    Options
		want string // in the error; empty: accepted
	}{
		{"defaults", Options{}, ""},
		{"one length", Options{TTL: 15 * s}, ""},
		{"a day", Options{TTL: 24 * time.Hour}, ""},
		{"the shortest that is safe", Options{TTL: 11 * time.Millisecond}, ""},
		{"renewal period equals the lease", Options{TTL: 5 * s, Renew: 5 * s}, "renew 5s"},
		{"15/11/14: the sum is longer than the lease", Options{TTL: 15 * s, Renew: 11 * s, Timeout: 3 * s, Margin: 3 * s}, "17s"},
		{"15/10/2", Options{TTL: 15 * s, Renew: 10 * s, Timeout: 2 * s, Margin: 2 * s}, ""},
		{"margin below what clocks and stopping need", Options{Margin: 20 * time.Millisecond}, "margin 20ms"},
		{"margin just enough", Options{Margin: 22 * time.Millisecond}, ""},
		{"negative length", Options{TTL: -s}, "lease length -1s"},
		{"below a millisecond", Options{TTL: 999 * time.Microsecond}, "nearest that can be kept is 11ms"},
		{"too short for its own margin", Options{TTL: 5 * time.Millisecond}, "margin 1ms"},
		{"a hundred years", Options{TTL: 100 * 366 * 24 * time.Hour}, "longer than any job"},
		{"the longest duration", Options{TTL: math.MaxInt64}, "longer than any job"},
		{"the shortest duration", Options{TTL: math.MinInt64}, "lease length"},
		{"overflowing sum", Options{Renew: math.MaxInt64, Timeout: math.MaxInt64}, "renew"},
		{"negative margin", Options{Margin: -s}, "margin -1s"},
		{"negative renew", Options{Renew: -s}, "renew -1s"},
		{"negative timeout", Options{Timeout: -s}, "timeout -1s"},
		{"negative wait", Options{Wait: -s}, "wait -1s"},
		{"negative beat", Options{BeatWithin: -s}, "beat within -1s"},
	} {
		client, err := New(everHeld{}, c.o)
		if client != nil {
			client.Close()
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestEveryBadSettingIsInOneError(t *testing.T) {
	_, err := New(everHeld{}, Options{Margin: -1, Renew: -1, Timeout: -1, Wait: -1})
	for _, word := range []string{"margin", "renew", "timeout", "wait"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not speak of %s: %v", word, err)
		}
	}
}

func TestALengthErrorIsAnInvalidRequest(t *testing.T) {
	_, err := New(everHeld{}, Options{TTL: -1})
	var length *authority.LengthError
	if !errors.Is(err, authority.ErrInvalid) || !errors.As(err, &length) {
		t.Errorf("got %v", err)
	}
}

func TestAClientNeedsAnAuthority(t *testing.T) {
	if _, err := New(nil, Options{}); err == nil {
		t.Error("New(nil) was accepted")
	}
}
