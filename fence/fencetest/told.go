package fencetest

import (
	"errors"
	"testing"

	"github.com/stint-dev/stint/fence"
)

// Told demands that do, one step of a job in which one request or answer is lost,
// tells the truth about what it did: done says whether the store has it. An error
// that is definite is followed by another try; fence.ErrUnknown is not expected,
// as the store can be reached again.
func Told(t *testing.T, step string, done func() bool, do func() error) {
	t.Helper()
	for range 3 {
		err := do()
		switch {
		case errors.Is(err, fence.ErrUnknown):
			t.Fatalf("%s: not settled: %v", step, err)
		case err == nil && !done():
			t.Fatalf("%s: said to be done, but was not", step)
		case err != nil && done():
			t.Fatalf("%s: done, but said %v", step, err)
		case err == nil:
			return
		}
	}
	t.Fatalf("%s: one loss, and it failed three times", step)
}
