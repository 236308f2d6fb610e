// Package protocol holds the protocols of stint as plain state machines: a
// machine is told the time and what happened, and answers with what is to be
// done. It does no I/O, starts no goroutine, reads no clock and draws no
// randomness, so the code that a simulator explores is the code that users run.
//
// Holder is one attempt to hold one name: it acquires, renews, stops and
// releases, and settles every request whose answer was lost.
//
// A driver performs the effects in the order given. It hands events over one at
// a time, with a time read after the event was taken from its queue; events that
// are due at one instant are ordered by Order.
package protocol
