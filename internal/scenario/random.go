package scenario

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
)

// Random makes a scenario from a seed: settings, faults, pauses, rivals and what
// the caller does, at times that hardly ever tie. From Calm on, nothing fails
// any more and the caller has let go.
func Random(seed uint64) Script {
	r := rand.New(rand.NewPCG(seed, 0))
	ms := func(from, to int) time.Duration {
		return time.Duration(from)*time.Millisecond + time.Duration(r.Int64N(int64(to-from)*int64(time.Millisecond)))
	}
	s := Script{
		Times:  protocol.Times{Length: ms(2000, 10000)}.WithDefaults(),
		RTT:    ms(1, 200),
		Skew:   time.Microsecond,
		Queuer: r.IntN(2) == 0,
		Try:    r.IntN(4) == 0,
		Faults: map[Nth]Fault{},
		Until:  Calm + 40*time.Second,
	}
	if r.IntN(3) == 0 {
		s.Wait = ms(500, 15000)
	}
	if r.IntN(4) == 0 {
		s.BeatWithin = ms(1000, 5000)
	}
	for range r.IntN(8) {
		op := protocol.Op(1 + r.IntN(int(protocol.OpLeave)))
		s.Faults[Nth{op, 1 + r.IntN(6)}] = randomFault(r, ms)
	}
	s.Steps = randomSteps(r, ms, s.BeatWithin > 0)
	return s
}

// Calm is when a random scenario's troubles are over.
const Calm = 30 * time.Second

func randomFault(r *rand.Rand, ms func(from, to int) time.Duration) Fault {
	switch r.IntN(5) {
	case 0:
		return Fault{DropRequest: true}
	case 1:
		return Fault{DropAnswer: true}
	case 2:
		return Fault{DelayRequest: ms(1, 3000)}
	case 3:
		return Fault{DelayAnswer: ms(1, 3000)}
	}
	return Fault{Twice: true}
}

func randomSteps(r *rand.Rand, ms func(from, to int) time.Duration, beats bool) []Step {
	at := func() time.Duration { return ms(1, 25000) }
	steps := []Step{{At: ms(1, 3000), What: "start"}}
	for range r.IntN(3) {
		steps = append(steps, Step{At: at(), What: "rival", For: ms(500, 8000)})
	}
	if r.IntN(3) == 0 {
		steps = append(steps, Step{At: at(), What: "rival-release"})
	}
	if r.IntN(4) == 0 {
		steps = append(steps, Step{At: at(), What: "break"})
	}
	if r.IntN(3) == 0 {
		steps = append(steps, Step{At: at(), What: "pause", For: ms(100, 12000)})
	}
	if beats {
		for t := ms(1000, 3000); t < 25*time.Second; t += ms(200, 4000) {
			steps = append(steps, Step{At: t, What: "beat"})
		}
	}
	if r.IntN(2) == 0 {
		steps = append(steps, Step{At: ms(3000, 25000), What: "cancel"})
	}
	// The caller has let go of everything before the calm is over.
	steps = append(steps, Step{At: ms(26000, 29000), What: "cancel"}, Step{At: ms(29001, 29999), What: "release"})
	slices.SortFunc(steps, func(a, b Step) int { return int(a.At - b.At) })
	return steps
}
