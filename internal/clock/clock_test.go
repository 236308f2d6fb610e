package clock

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAlarmRingsWhenItsTimeHasCome(t *testing.T) {
	for name, c := range map[string]Clock{"boot": Boot(), "process": Process()} {
		t.Run(name, func(t *testing.T) {
			a, err := c.NewAlarm()
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			for _, in := range []time.Duration{20 * time.Millisecond, 0, -time.Hour} {
				at := c.Now().Add(in)
				a.Set(at)
				<-a.C()
				if now := c.Now(); now < at {
					t.Errorf("rang %v early", at.Sub(now))
				}
			}
		})
	}
}

func TestAlarmSetAgainForgetsTheEarlierTime(t *testing.T) {
	c := new(Fake)
	a, _ := c.NewAlarm()
	defer a.Close()
	a.Set(10)
	a.Set(20)
	c.Advance(15)
	select {
	case <-a.C():
		t.Fatal("rang at the time that was replaced")
	default:
	}
	if at, ok := c.Next(); !ok || at != 20 {
		t.Fatalf("next alarm %v %v, want 20", at, ok)
	}
	c.Advance(5)
	<-a.C()
}

func TestJumpMovesTheClockBeforeAnyAlarmRings(t *testing.T) {
	c := new(Fake)
	a, _ := c.NewAlarm()
	defer a.Close()
	a.Set(10)
	c.Jump(time.Minute)
	select {
	case <-a.C():
		t.Fatal("rang during the jump")
	default:
	}
	if c.Now() != authority.Instant(time.Minute) {
		t.Fatal("the clock did not move")
	}
}

func TestInstantsHoldAtTheEndsOfTheirRange(t *testing.T) {
	const most = authority.Instant(1<<63 - 1)
	if got := authority.Instant(5).Add(1<<63 - 1); got != most {
		t.Errorf("5 + the longest duration = %d, want the last instant", got)
	}
	if got := authority.Instant(-5).Add(-1 << 63); got != -1<<63 {
		t.Errorf("-5 - the longest duration = %d, want the first instant", got)
	}
}
