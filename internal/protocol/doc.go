// Package protocol holds the protocols of stint as plain state machines: a
// machine is told the time and what happened, and answers with what is to be
// done. It does no I/O, starts no goroutine, reads no clock and draws no
// randomness, so the code that a simulator explores is the code that users run.
//
// Holder is one attempt to hold one name: it acquires, renews, stops and
// releases, and settles every request whose answer was lost. Observer does the
// same at a register that can only compare and swap, Candidate stands in an
// election, Sweeper gives back orphans, Incumbent is the single writer that a flag
// names and Successor takes over from it. Payer does one effect at a remote side
// that knows no tokens, and ManifestWriter commits objects by naming them. Sharer
// keeps the locks of many holders under one lease of a lock service. Lessor is the
// other side: what a lock service grants, and takes away. Quorum is a client of
// Redlock, which is not safe, and is here to be shown.
//
// Rules names the safety rules that each of them keeps, so that a simulator can
// leave one out and show what it is for.
//
// A driver performs the effects in the order given. It hands events over one at
// a time, with a time read after the event was taken from its queue; events that
// are due at one instant are ordered by Order.
package protocol
