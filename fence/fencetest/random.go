package fencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

// Side is a fresh and empty store that random programs run against.
type Side struct {
	Store
	// Name is for people.
	Name string
	// Net is the way to the store.
	Net *faultsql.Network
	// Settle as sqlfence has it.
	Settle func(ctx context.Context, c fence.Claim) (applied bool, err error)
	// Hasty is Write by a fence that gives up settling at once; for when
	// everything is down.
	Hasty func(ctx context.Context, c fence.Claim, key, value string, between func() error) error
	// Values gives every value that was ever written, in that order.
	Values func() ([]string, error)
	Close  func() error
}

// Random runs random programs of raises, writes, finishes, requeues, bars and
// prunes, with writes that are abandoned and COMMITs that are lost before or
// after they were applied, against fence.Memory and against every side at once,
// step by step. Every answer, every row and all data must be the same. A failure
// comes back reduced, with the seed that repeats it.
func Random(t *testing.T, open func(t *rapid.T) []Side) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{sides: open(t), model: fence.NewMemory(), marks: map[string]int{}}
		defer w.close(t)
		w.raiseTo(t, randomNames[0], grant(1, "x"))
		w.compare(t)
		t.Repeat(map[string]func(*rapid.T){
			"raise":   w.raise,
			"resume":  w.resume,
			"write":   w.write,
			"write 2": w.write, // twice as often
			"settle":  w.settle,
			"finish":  w.finish,
			"check":   w.check,
			"requeue": w.requeue,
			"bar":     w.bar,
			"prune":   w.prune,
			"":        w.compare,
		})
	})
}

// randomNames differ in as little as names can.
var randomNames = []string{"a", "b", "B"}

// world is the stores under test, the model of them, and the holders.
type world struct {
	sides []Side
	model *fence.Memory
	data  []string
	marks map[string]int // by name: the write that was admitted last
	all   []*holder
	seen  []fence.Row
	n     int // writes begun
}

func (w *world) close(t *rapid.T) {
	for _, s := range w.sides {
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// each does the same on all sides; the answers must be the model's.
func (w *world) each(t *rapid.T, what string, want error, do func(i int, s *Side) error) {
	t.Helper()
	for i := range w.sides {
		s := &w.sides[i]
		if err := do(i, s); meaning(err) != meaning(want) {
			t.Fatalf("%s: %s says %v, the model %v", what, s.Name, err, want)
		}
	}
}

// writeWith does a write that meets with a fault.
func (s *Side) writeWith(c fence.Claim, value, fault string) error {
	write := s.Write
	var between func() error
	switch fault {
	case "abandon":
		between = func() error { return errAbandon }
	case "drop COMMIT":
		s.Net.Lose(false, faultsql.Commits(faultsql.Before))
	case "drop answer":
		s.Net.Lose(false, faultsql.Commits(faultsql.After))
	case "cut before":
		s.Net.Lose(true, faultsql.Commits(faultsql.Before))
		write = s.Hasty
	case "cut after":
		s.Net.Lose(true, faultsql.Commits(faultsql.After))
		write = s.Hasty
	}
	defer s.Net.Heal()
	return write(context.Background(), c, "k", value, between)
}

// meaning is what an error means to a caller.
func meaning(err error) string {
	var stale *fence.StaleError
	var repeated *fence.RepeatedError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, fence.ErrUnknown):
		return "unknown"
	case errors.As(err, &stale):
		return fmt.Sprintf("stale %d %d %v", stale.Presented, stale.Fence, stale.AtRaise)
	case errors.As(err, &repeated):
		return fmt.Sprintf("repeated %v %v", repeated.Presented, repeated.Admitted)
	case errors.Is(err, faultsql.ErrLost):
		return "lost"
	}
	for _, s := range []error{fence.ErrNoFence, fence.ErrNotRaised, fence.ErrChanged, fence.ErrCommitted, fence.ErrSequence, errAbandon} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return err.Error()
}

func (s *Side) sameRow(t *rapid.T, what string, real, model fence.Row) {
	t.Helper()
	real.Since, model.Since = time.Time{}, time.Time{}
	if real != model {
		t.Fatalf("%s: %s has %+v, the model %+v", what, s.Name, real, model)
	}
}

// compare is done after every step.
func (w *world) compare(t *rapid.T) {
	for _, name := range randomNames {
		model, want := w.model.Row(context.Background(), name)
		w.each(t, "row", want, func(_ int, s *Side) error {
			real, err := s.Row(context.Background(), name)
			s.sameRow(t, "row", real, model)
			return err
		})
	}
	var model []fence.Row
	for r := range w.model.Claims(context.Background()) {
		model = append(model, r)
	}
	for i := range w.sides {
		s := &w.sides[i]
		data, err := s.Values()
		if err != nil || !slices.Equal(data, w.data) {
			t.Fatalf("%s holds %v (%v), the model %v", s.Name, data, err, w.data)
		}
		s.compareClaims(t, model)
	}
	for _, r := range model {
		if !slices.ContainsFunc(w.seen, func(s fence.Row) bool { return s.Name == r.Name && s.Fence == r.Fence && s.Nonce == r.Nonce }) {
			w.seen = append(w.seen, r)
		}
	}
}

func (s *Side) compareClaims(t *rapid.T, model []fence.Row) {
	var real []fence.Row
	for r, err := range s.Fence.Claims(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		real = append(real, r)
	}
	if len(real) != len(model) {
		t.Fatalf("%s lists %v, the model %v", s.Name, real, model)
	}
	for i, r := range real {
		s.sameRow(t, "claim", r, model[i])
	}
}
