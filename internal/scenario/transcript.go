package scenario

import (
	"fmt"
	"strings"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// Transcript collects what a machine hears and does, as lines for a person.
type Transcript struct{ b strings.Builder }

// Record adds one step. A beat that changes nothing is left out.
func (t *Transcript) Record(now authority.Instant, e protocol.Event, effects []protocol.Effect) {
	if _, ok := e.(protocol.Beat); ok && len(effects) == 0 {
		return
	}
	fmt.Fprintf(&t.b, "%v < %s\n", now, describe(e))
	for _, effect := range effects {
		fmt.Fprintf(&t.b, "    > %v\n", effect)
	}
}

// String returns the lines so far.
func (t *Transcript) String() string { return t.b.String() }

func describe(e protocol.Event) string {
	switch e := e.(type) {
	case protocol.Start:
		return "start"
	case protocol.Tick:
		return "tick"
	case protocol.Release:
		return "release"
	case protocol.Cancel:
		return "cancel: " + e.Cause.Error()
	case protocol.Beat:
		return fmt.Sprintf("beat of %v", e.At)
	case protocol.Answer:
		return describeAnswer(e)
	}
	return fmt.Sprintf("%T", e)
}

func describeAnswer(a protocol.Answer) string {
	s := fmt.Sprintf("%v #%d: ", a.Op, a.Try)
	switch {
	case a.Err != nil:
		return s + a.Err.Error()
	case a.Op == protocol.OpAcquire || a.Op == protocol.OpRenew:
		return s + fmt.Sprintf("%v for %v", a.Grant.Grant, a.Grant.Length)
	case a.Op == protocol.OpInspect && a.State.Held:
		return s + "held by " + a.State.Grant.String()
	case a.Op == protocol.OpInspect:
		return s + "free"
	}
	return s + "ok"
}
