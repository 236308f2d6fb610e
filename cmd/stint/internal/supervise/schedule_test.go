package supervise

import (
	"testing"
	"time"
)

func TestTermComesGraceBeforeTheStopTimeAndKillInTime(t *testing.T) {
	const ms = time.Millisecond
	s := Schedule{Grace: time.Second, Lead: 100 * ms}
	for _, c := range []struct {
		left   time.Duration
		action Action
		again  time.Duration
	}{
		{8 * time.Second, Keep, 7 * time.Second},
		{1500 * ms, Keep, 500 * ms},
		{1000 * ms, Term, 900 * ms},
		{500 * ms, Term, 400 * ms},
		{101 * ms, Term, 1 * ms},
		{100 * ms, Kill, 0},
		{0, Kill, 0},
		{-time.Hour, Kill, 0}, // stint was frozen
	} {
		if action, again := s.At(c.left); action != c.action || again != c.again {
			t.Errorf("%v left: action %d, look again in %v; want %d, %v", c.left, action, again, c.action, c.again)
		}
	}
}

func TestWithoutGraceThereIsOnlyKill(t *testing.T) {
	s := Schedule{Lead: 10 * time.Millisecond}
	for left := 30 * time.Millisecond; left >= 0; left -= time.Millisecond {
		if action, _ := s.At(left); action == Term {
			t.Errorf("TERM with %v left", left)
		}
	}
}

func TestTheKillGoesOutBeforeTheStopTimeByAPartOfTheMargin(t *testing.T) {
	for margin, want := range map[time.Duration]time.Duration{
		2 * time.Second:        100 * time.Millisecond,
		200 * time.Millisecond: 20 * time.Millisecond,
		20 * time.Millisecond:  5 * time.Millisecond,
		time.Hour:              100 * time.Millisecond,
	} {
		if got := LeadFor(margin); got != want {
			t.Errorf("margin %v: %v; want %v", margin, got, want)
		}
	}
}
