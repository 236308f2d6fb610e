// Package authority is the grant's side of a lease: the one linearizable store
// that says who holds a name, and the contract that every such store meets.
//
// Backends register themselves, as database/sql drivers do:
//
//	import _ "github.com/stint-dev/stint/backends/sqlite/sqlitelease"
//	a, err := authority.Open(ctx, "sqlite:///var/lib/stint/leases.db")
package authority

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Authority grants leases. Each method makes one try and returns; retrying,
// renewing and giving up are decided above it. All methods are safe for
// concurrent use, and return soon after ctx is done.
//
// Every failure is definite or it is not. Errors that match ErrHeld, ErrNotHeld,
// ErrInvalid, ErrBroken or ErrClosed mean "surely not: nothing was changed". Any other error means
// "perhaps": the request may have been carried out, or may yet be.
type Authority interface {
	// Acquire grants r.Name to r.Nonce, or refuses with a *HeldError that says
	// by whom it is held. Acquiring again with the nonce of the living grant
	// returns that grant. Every grant's token is higher than every earlier token
	// of the name. Which nonce a grant carries is said at Request.
	Acquire(ctx context.Context, r Request) (Grant, error)
	// Renew extends g by its full Length from now. *NotHeldError is definite: g
	// ended, and never comes back.
	Renew(ctx context.Context, g Grant) (Grant, error)
	// Release ends g, and only this very grant. Repeating it is harmless: nil
	// means that g is not held any more by its own doing or was released before
	// and nobody has followed; *NotHeldError that it had ended otherwise, and
	// nothing was changed. An authority that forgets what has ended may answer a
	// repeated release with *NotHeldError.
	Release(ctx context.Context, g Grant) error
	// Inspect is a linearizable read. A name that was never held is a State
	// that is not Held, with no error.
	Inspect(ctx context.Context, name string) (State, error)
	// Close frees connections and files. It releases no lease.
	Close() error
}

// Queuer is an Authority that serves those who wait in order. A refused
// Acquire whose Request has a Waiter takes (or keeps) that waiter's place in
// the name's line.
//
// The place may become the grant without a further request, as soon as nobody
// is ahead of it. The waiter's next try then returns that grant, under the nonce
// that the place has kept; see Request.
type Queuer interface {
	// Wait returns when a further try of r.Name by r.Waiter is worthwhile, at
	// the latest when ctx is done (nil then too). It may return early. It keeps
	// the place in the line alive.
	Wait(ctx context.Context, r Request) error
	// Leave gives up the waiter's place, and what it has become if no try was
	// told of it. Repeating it is harmless. An authority whose places do not die
	// of silence finishes a Leave of unknown outcome by itself.
	Leave(ctx context.Context, r Request) error
}

// Starter is an Authority to which many requests can be given without a
// goroutine that waits for each: those that it sends together, say. The methods
// begin what Acquire and Release do, return at once, and call answered with the
// outcome, exactly once and soon after ctx is done at the latest: from any
// goroutine, also before they return. answered does not block, and may begin
// further requests. Where one is alone, who waits for it calls Acquire or Release
// instead: they return soon after ctx is done, too.
type Starter interface {
	StartAcquire(ctx context.Context, r Request, answered func(Grant, error))
	StartRelease(ctx context.Context, g Grant, answered func(error))
}

// BulkRenewer is an Authority that renews many grants for about the price of
// one: those that share a lease at the authority, say.
type BulkRenewer interface {
	// RenewAll renews each grant as Renew does, and answers in the same order,
	// one Renewal each. It answers for all at once, so it is as slow as the
	// slowest of them, and returns soon after ctx is done.
	RenewAll(ctx context.Context, grants []Grant) []Renewal
}

// Renewal is one answer of RenewAll: what Renew would have returned.
type Renewal struct {
	Grant Grant
	Err   error
}

// Lister is an Authority that can list the names that it knows, in the order
// of their bytes.
type Lister interface {
	List(ctx context.Context) iter.Seq2[State, error]
}

// Describer is an Authority that can say in a few plain words what it is and
// how far it reaches: "sqlite /var/lib/stint/leases.db (this host only)".
// Passwords never appear.
type Describer interface {
	Describe() string
}

// Timing tells how late an Authority may be. A holder that has gone is
// succeeded at most Lateness after its Length, measured from the last renewal
// that the authority applied, as long as somebody is waiting.
type Timing interface {
	Lateness() time.Duration
}

// Request asks for a lease.
//
// Its grant carries its Nonce. One to a Waiter may instead carry the nonce of
// an earlier try of that waiter, since a place in line keeps its own; such a
// grant has its From set, for it may be older than the try that it answers.
type Request struct {
	Name   string        // see fence.CheckName
	Length time.Duration // how long the authority keeps it without a renewal; see CheckLength
	Nonce  string        // unique per try; becomes the grant's nonce
	Waiter string        // unique per wait, the same over its tries; empty: do not stand in line
	Holder string        // who asks, for people: "web-3 pid 4711"; at most MaxHolder bytes are kept
}

// MaxHolder is how much of Request.Holder is kept, in bytes.
const MaxHolder = 256

// KeptHolder is the Holder as an authority keeps it: valid UTF-8, cut to
// MaxHolder bytes.
func (r Request) KeptHolder() string {
	h := strings.ToValidUTF8(r.Holder, "?")
	if len(h) > MaxHolder {
		h = strings.ToValidUTF8(h[:MaxHolder], "")
	}
	return h
}

// Grant is what an authority hands out.
type Grant struct {
	fence.Grant               // token and nonce
	Name        string        //
	Length      time.Duration // as the authority keeps it; may differ from what was asked
	// From is the instant on this process's boot clock from which Length counts,
	// where the authority knows better than its caller (a lease that is shared
	// by several locks). Zero: from when the request was sent.
	From Instant
}

// State is what an authority knows of a name.
type State struct {
	Name    string
	Held    bool
	Grant   fence.Grant   // the living grant, else the last one; zero when never held, or when what has ended is forgotten
	Holder  string        // as its Request gave it
	Since   time.Time     // when it was granted, by the authority's wall clock: for people, never compared
	Length  time.Duration //
	Left    time.Duration // until the authority lets go, at the time of the answer, by its own clock
	Waiters int           // in line, where the authority keeps one
}
