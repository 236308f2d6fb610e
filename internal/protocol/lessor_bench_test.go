package protocol

import (
	"fmt"
	"testing"
)

// BenchmarkRenewals renews ten thousand leases in turn, each every 3 s, with the
// ticks that their deadlines ask for.
func BenchmarkRenewals(b *testing.B) {
	const n = 10_000
	l := NewLessor(LessorConfig{})
	l.Step(0, Promoted{1})
	asks := make([]Ask, n)
	for i := range n {
		name := fmt.Sprintf("job%05d", i)
		l.Step(0, Applied{1, Command{Op: CmdCreate, Name: name, Length: 10 * sec}})
		asks[i] = Ask{Op: OpRenew, Name: name, Grant: l.key(name).grant}
	}
	now, timer := Instant(0), at(10*sec)
	for i := 0; b.Loop(); i++ {
		now = now.Add(3 * sec / n)
		a := asks[i%n]
		a.ID = uint64(i + 1)
		l.Step(now, a)
		l.Step(now, Confirmed{a.ID})
		if now >= timer {
			for _, e := range l.Step(now, Tick{}) {
				if arm, ok := e.(Arm); ok {
					timer = arm.At
				}
			}
		}
	}
	if len(l.keys) != n {
		b.Fatalf("%d keys are left", len(l.keys))
	}
}
