package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Record is what a compare-and-swap register keeps for one name.
type Record struct {
	Holder string        // who holds it, for people; empty: nobody
	Grant  fence.Grant   // the living one, else the last one
	Length time.Duration // of its lease
	Write  string        // fresh in every write, so that no two writes are alike
	// Until is when the lease ends by the wall clock of who wrote it. It is read
	// only where the rule clock-free is left out; the driver fills it in.
	Until Instant
}

// ErrConflict answers a Swap: the register did not hold that version. Nothing
// was changed, and nothing will be.
var ErrConflict = errors.New("the record has changed")

// Loaded answers Load. An empty Version says that there is no record.
type Loaded struct {
	Try     int
	Record  Record
	Version string
	Wall    Instant // the wall clock's time, for the rule clock-free
	Err     error
}

// Swapped answers Swap. An error that matches ErrConflict is definite.
type Swapped struct {
	Try     int
	Version string // the new one
	Err     error
}

func (Loaded) event()  {}
func (Swapped) event() {}

// Load asks for a consistent read. Exactly one Loaded follows, at the Deadline
// at the latest.
type Load struct {
	Try      int
	Deadline Instant
}

// Swap writes Record if the register still holds the version If (empty: no
// record). Exactly one Swapped follows, at the Deadline at the latest. The
// driver stamps Record.Until with its wall clock and Record.Length.
type Swap struct {
	Try      int
	If       string
	Any      bool // whatever it holds, where the rule conditional-release is left out
	Delete   bool // delete the record, where the rule keep-token is left out
	Record   Record
	Deadline Instant
}

func (Load) effect() {}
func (Swap) effect() {}

func (e Load) String() string { return fmt.Sprintf("load #%d until %v", e.Try, e.Deadline) }

func (e Swap) String() string {
	s := fmt.Sprintf("swap #%d", e.Try)
	switch {
	case e.Any:
		s += " whatever is there"
	case e.If == "":
		s += " nothing"
	default:
		s += " " + e.If
	}
	switch {
	case e.Delete:
		s += " for nothing"
	case e.Record.Holder == "":
		s += fmt.Sprintf(" for a free record after %v", e.Record.Grant)
	default:
		s += fmt.Sprintf(" for %v by %s", e.Record.Grant, e.Record.Holder)
	}
	return s + fmt.Sprintf(" until %v", e.Deadline)
}
