package store

import (
	"errors"
	"testing"

	"github.com/stint-dev/stint/fence"
)

// TestALedgerKeepsTheRulesOfATable: the same calls, on items with conditions and
// on rows, have the same outcome.
func TestALedgerKeepsTheRulesOfATable(t *testing.T) {
	a, b, twin := fence.Grant{Token: 7, Nonce: "a"}, fence.Grant{Token: 12, Nonce: "b"}, fence.Grant{Token: 12, Nonce: "c"}
	l := NewLedger(3, Off{})
	for n, c := range []struct {
		do   func() error
		want error
	}{
		{func() error { return l.Finish("job", a) }, fence.ErrNotRaised},
		{func() error { _, err := l.Raise(0, "job", a); return err }, nil},
		{func() error { _, err := l.Write("job", Write{Grant: a, Mark: "a/1", Chunk: 1}); return err }, nil},
		{func() error { _, err := l.Write("job", Write{Grant: a, Mark: "a/1", Chunk: 1}); return err }, fence.ErrCommitted},
		{func() error { _, err := l.Write("job", Write{Grant: a, Mark: "a/2", Chunk: 2}); return err }, fence.ErrSequence},
		{func() error { _, err := l.Raise(0, "job", a); return err }, nil},
		{func() error { _, err := l.Raise(0, "job", b); return err }, nil},
		{func() error { _, err := l.Raise(0, "job", twin); return err }, fence.ErrRepeated},
		{func() error { _, err := l.Raise(0, "job", a); return err }, fence.ErrStale},
		{func() error { _, err := l.Write("job", Write{Grant: a, Seq: 1, Mark: "a/2", Chunk: 2}); return err }, fence.ErrStale},
		{func() error { _, err := l.Write("job", Write{Grant: twin, Seq: 1, Mark: "c/2", Chunk: 2}); return err }, fence.ErrRepeated},
		{func() error { _, err := l.Write("job", Write{Grant: b, Seq: 1, Mark: "b/2", Chunk: 2}); return err }, nil},
		{func() error { l.Forget(); return nil }, nil}, // ten minutes later the count still knows
		{func() error { _, err := l.Write("job", Write{Grant: b, Seq: 1, Mark: "b/2", Chunk: 2}); return err }, fence.ErrCommitted},
		{func() error { return l.Finish("job", a) }, fence.ErrStale},
		{func() error { return l.Finish("job", b) }, nil},
	} {
		if err := c.do(); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("step %d: %v, want %v", n, err, c.want)
		}
	}
	j := l.Read("job")
	if j.Next() != 3 || j.Twice() != 0 || j.Seq != 2 || j.Fence != 12 || j.State != fence.Done || j.Indexed {
		t.Errorf("the job is %+v", j)
	}
}
