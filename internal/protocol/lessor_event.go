package protocol

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// Further requests, which only the lock service knows.
const (
	OpList   Op = iota + 16 // the keys under a prefix
	OpGrant                 // a lease without a key
	OpRevoke                // a lease and its keys
	OpPass                  // to a named heir, out of order
	OpNumber                // a token above the floor
	OpBump                  // the revision, by hand
	OpCreate                // a key under a lease that exists
)

// Ask is a client's request, as it reaches a node of the lock service.
type Ask struct {
	ID     uint64 // unique in the world; the Reply carries it
	Op     Op
	Name   string // the key; of OpList the election, a prefix that ends in a slash
	Key    string // of OpPass: the heir's
	Lease  uint64 // of OpGrant, OpCreate, OpRevoke; of OpRenew where Name is empty
	Length time.Duration
	Nonce  string      // of a key that is created
	Grant  fence.Grant // of OpRenew, OpRelease, OpPass, OpNumber
	Holder string      // for people
	By     int64       // of OpBump
}

// Applied is an entry of the log that this node applies now; Term is the
// entry's. Every node hands every entry to its lessor, in the log's order.
type Applied struct {
	Term    uint64
	Command Command
}

// Promoted says that this node leads from now on. It comes when the node has
// applied the whole log before its own term.
type Promoted struct{ Term uint64 }

// Demoted says that it does not lead any more.
type Demoted struct{}

// Confirmed answers Confirm: a majority has acknowledged, since the Confirm,
// that this node leads, and the node has applied all that was committed before.
type Confirmed struct{ ID uint64 }

func (Ask) event()       {}
func (Applied) event()   {}
func (Promoted) event()  {}
func (Demoted) event()   {}
func (Confirmed) event() {}

// Propose puts a command into the log of this very node, as the leader of its
// Term; it is dropped where the node does not lead in that term (any more), and
// never forwarded. The log keeps the order of a node's proposals.
type Propose struct{ Command Command }

// Confirm asks a majority whether this node still leads (a read index).
type Confirm struct{ ID uint64 }

// Reply answers an Ask. Errors that match authority.ErrHeld or ErrNotHeld are
// definite.
type Reply struct {
	ID    uint64
	Op    Op
	Grant authority.Grant // of acquire, create, renew, pass, number
	State authority.State // of inspect
	Lease uint64          // of acquire, grant
	List  Listed          // of list
	Err   error
}

// Removed says that a key is gone, on every node that applies it: those who
// watch it are woken.
type Removed struct {
	Key   string
	Token fence.Token
	Rev   int64
}

// Moved says that a key was put before all others of its election.
type Moved struct {
	Key   string
	Token fence.Token // its new one
	Rev   int64
}

func (Propose) effect() {}
func (Confirm) effect() {}
func (Reply) effect()   {}
func (Removed) effect() {}
func (Moved) effect()   {}

// ErrNotLeader: this node does not lead; nothing was changed, another one may.
type ErrNotLeader struct{}

func (ErrNotLeader) Error() string { return "this node of the lock service does not lead" }

func (o CommandOp) String() string {
	switch o {
	case CmdGrant:
		return "grant"
	case CmdCreate:
		return "create"
	case CmdDelete:
		return "delete"
	case CmdRevoke:
		return "revoke"
	case CmdExpire:
		return "expire"
	case CmdCheckpoint:
		return "checkpoint"
	case CmdBump:
		return "bump"
	case CmdPass:
		return "pass"
	case CmdNumber:
		return "number"
	}
	return "nothing"
}

func (c Command) String() string {
	s := c.Op.String()
	if c.Name != "" {
		s += fmt.Sprintf(" %q", c.Name)
	}
	switch {
	case c.Lease&ownLease != 0:
		s += fmt.Sprintf(" lease of key %d", c.Lease&^ownLease)
	case c.Lease != 0:
		s += fmt.Sprintf(" lease %d", c.Lease)
	}
	switch c.Op {
	case CmdGrant:
		s += fmt.Sprintf(" for %v", c.Length)
	case CmdCheckpoint:
		s += fmt.Sprintf(", %v left", c.Length)
	case CmdCreate:
		s += fmt.Sprintf(" for %v by %s", c.Length, c.Grant.Nonce)
	case CmdDelete, CmdNumber:
		s += fmt.Sprintf(" of %v", c.Grant)
	case CmdPass:
		s += fmt.Sprintf(" from %v to %q", c.Grant, c.Key)
	case CmdBump:
		s += fmt.Sprintf(" by %d", c.By)
	}
	return s
}

func (e Propose) String() string { return "propose " + e.Command.String() }
func (e Confirm) String() string { return fmt.Sprintf("confirm #%d", e.ID) }
func (e Removed) String() string { return fmt.Sprintf("removed %q of %d at %d", e.Key, e.Token, e.Rev) }
func (e Moved) String() string {
	return fmt.Sprintf("moved %q to the front with %d at %d", e.Key, e.Token, e.Rev)
}

func (e Reply) String() string {
	s := fmt.Sprintf("reply #%d %v: ", e.ID, e.Op)
	switch {
	case e.Err != nil:
		return s + e.Err.Error()
	case !e.Grant.IsZero():
		return s + fmt.Sprintf("%v for %v", e.Grant.Grant, e.Grant.Length)
	case e.Op == OpInspect && e.State.Held:
		return s + "held by " + e.State.Grant.String()
	case e.Op == OpInspect:
		return s + "free"
	case e.Op == OpList:
		return s + fmt.Sprintf("%d keys", len(e.List.Keys))
	}
	return s + "ok"
}
