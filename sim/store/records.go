package store

import (
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// RecordState is how far a payment is, as its record says.
type RecordState string

// The states.
const (
	NoRecord RecordState = ""        // nobody has begun
	Pending  RecordState = "PENDING" // the bank is asked: whether it has paid is not known here
	Paid     RecordState = "DONE"    // the bank has answered
	Unknown  RecordState = "UNKNOWN" // left to a person
)

// Record is the idempotency record of one payment.
type Record struct {
	State RecordState
	Grant fence.Grant // whose it is
	Nonce string      // of the try that wrote it
}

// Records are the idempotency records of a job, behind a fence.
type Records struct {
	fence   fence.Token
	records []Record
}

// NewRecords makes the records of n payments.
func NewRecords(n int) *Records { return &Records{records: make([]Record, n)} }

// Get is the record of a payment, from 1.
func (r *Records) Get(n int) Record { return r.records[n-1] }

// Len is the number of payments.
func (r *Records) Len() int { return len(r.records) }

// Fence is the highest token that was admitted.
func (r *Records) Fence() fence.Token { return r.fence }

// Raise admits a new holder.
func (r *Records) Raise(t fence.Token) error { return r.admit(t, true) }

// Set writes a record under a token, if it still is as it was seen. One that is
// written already is left as it is.
func (r *Records) Set(n int, seen, to Record, t fence.Token) (written bool, err error) {
	if err := r.admit(t, false); err != nil {
		return false, err
	}
	switch r.records[n-1] {
	case to:
		return false, nil
	case seen:
		r.records[n-1] = to
		return true, nil
	}
	return false, fence.ErrChanged
}

func (r *Records) admit(t fence.Token, raise bool) error {
	if t < r.fence || t > r.fence && !raise {
		return fmt.Errorf("%w: token %d, fence %d", fence.ErrStale, t, r.fence)
	}
	r.fence = t
	return nil
}

// Bank is the remote side: it pays once for each request, or once for each key
// if it takes keys. It knows no tokens.
type Bank struct {
	keys  bool
	paid  []int
	known map[string]bool // keys, looked up only
}

// NewBank makes a bank that has paid nothing.
func NewBank(n int, takesKeys bool) *Bank {
	return &Bank{keys: takesKeys, paid: make([]int, n), known: map[string]bool{}}
}

// TakesKeys reports whether a repetition with the same key is safe.
func (b *Bank) TakesKeys() bool { return b.keys }

// Pay pays, unless it takes keys and has paid for this one. It returns how often
// this payment was made by now, and whether this request made it.
func (b *Bank) Pay(n int, key string) (times int, now bool) {
	now = !b.keys || !b.known[key]
	if now {
		b.paid[n-1]++
	}
	b.known[key] = true
	return b.paid[n-1], now
}

// Paid reports whether a payment was made.
func (b *Bank) Paid(n int) bool { return b.paid[n-1] > 0 }

// Count is how many payments were made, how many of them again, and how many
// were not.
func (b *Bank) Count() (paid, twice, missing int) {
	for _, n := range b.paid {
		switch {
		case n == 0:
			missing++
		default:
			paid++
			twice += n - 1
		}
	}
	return paid, twice, missing
}
