package fencetest

import (
	"context"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

// holder is a claim on the model and on all sides. pending is what only the
// model knows of a write whose answer was lost.
type holder struct {
	model   fence.Claim
	real    []fence.Claim // by side
	pending *pending
	applied bool // what Settle has to say
}

type pending struct {
	write   int
	applied bool
	before  int64
}

func (w *world) holder(t *rapid.T) *holder {
	return rapid.SampledFrom(w.all).Draw(t, "holder")
}

func (w *world) raise(t *rapid.T) {
	name := rapid.SampledFrom(randomNames).Draw(t, "name")
	g := grant(fence.Token(rapid.IntRange(1, 12).Draw(t, "token")), rapid.SampledFrom([]string{"x", "X"}).Draw(t, "nonce"))
	w.raiseTo(t, name, g)
}

func (w *world) raiseTo(t *rapid.T, name string, g fence.Grant) {
	model, want := w.model.Raise(context.Background(), name, g)
	h := &holder{model: model, real: make([]fence.Claim, len(w.sides))}
	w.each(t, fmt.Sprintf("raise %s %v", name, g), want, func(i int, s *Side) error {
		real, err := s.Fence.Raise(context.Background(), name, g)
		if err == nil && want == nil {
			s.sameRow(t, "previous", real.Previous, model.Previous)
		}
		h.real[i] = real
		return err
	})
	if want == nil {
		w.all = append(w.all, h)
	}
}

func (w *world) resume(t *rapid.T) {
	from := w.holder(t)
	h := &holder{real: make([]fence.Claim, len(w.sides))}
	h.model, _ = fence.Resume(from.model.Name, from.model.Grant)
	for i := range h.real {
		h.real[i], _ = fence.Resume(from.model.Name, from.model.Grant)
	}
	w.all = append(w.all, h)
}

// write does a write that goes well, is abandoned, loses a request or an answer
// for a moment, or loses its COMMIT and everything after it.
func (w *world) write(t *rapid.T) {
	h := w.holder(t)
	fault := rapid.SampledFrom([]string{"", "", "", "abandon", "drop COMMIT", "drop answer", "cut before", "cut after"}).Draw(t, "fault")
	if h.pending != nil && strings.HasPrefix(fault, "cut") {
		fault = "" // to be settled first, by a fence that takes its time
	}
	w.n++
	value := fmt.Sprint("v", w.n)
	want := w.modelWrite(h, value, fault)
	w.each(t, fmt.Sprintf("write %q by %v of %s", fault, h.model.Grant, h.model.Name), want, func(i int, s *Side) error {
		return s.writeWith(h.real[i], value, fault)
	})
}

func (w *world) modelWrite(h *holder, value, fault string) error {
	if h.pending != nil {
		applied, err := w.modelSettle(h)
		if err != nil {
			return err
		}
		if applied {
			return fence.ErrCommitted
		}
	}
	h.applied = false
	row, _ := w.model.Row(context.Background(), h.model.Name)
	err := w.model.Do(context.Background(), h.model, func() error {
		switch fault {
		case "abandon":
			return errAbandon
		case "drop COMMIT":
			return faultsql.ErrLost
		case "cut before":
			h.pending = &pending{w.n, false, row.Seq}
			return fence.ErrUnknown
		}
		w.data = append(w.data, value)
		return nil
	})
	if err != nil {
		return err
	}
	w.marks[h.model.Name] = w.n
	h.applied = true
	if fault == "cut after" {
		h.pending = &pending{w.n, true, row.Seq}
		return fence.ErrUnknown
	}
	return nil
}

// modelSettle is the promise: told apart as long as nobody else has committed.
func (w *world) modelSettle(h *holder) (bool, error) {
	p := h.pending
	if p == nil {
		return h.applied, nil
	}
	row, err := w.model.Row(context.Background(), h.model.Name)
	switch {
	case err != nil:
		return false, fence.ErrUnknown
	case p.applied && w.marks[h.model.Name] == p.write:
		h.pending, h.applied = nil, true
	case !p.applied && row.Seq == p.before:
		h.pending, h.applied = nil, false
	default:
		return false, fence.ErrUnknown
	}
	return h.applied, nil
}

func (w *world) settle(t *rapid.T) {
	h := w.holder(t)
	model, want := w.modelSettle(h)
	w.each(t, "settle", want, func(i int, s *Side) error {
		applied, err := s.Settle(context.Background(), h.real[i])
		if applied != model {
			t.Fatalf("settle: %s says %v, the model %v", s.Name, applied, model)
		}
		return err
	})
}

func (w *world) finish(t *rapid.T) {
	h := w.holder(t)
	want := fence.ErrUnknown
	if h.pending == nil {
		want = w.model.Finish(context.Background(), h.model)
	}
	w.each(t, "finish", want, func(i int, s *Side) error { return s.Fence.Finish(context.Background(), h.real[i]) })
}

func (w *world) check(t *rapid.T) {
	h := w.holder(t)
	want := w.model.Check(context.Background(), h.model)
	w.each(t, "check", want, func(i int, s *Side) error { return s.Fence.Check(context.Background(), h.real[i]) })
}

func (w *world) requeue(t *rapid.T) {
	r := rapid.SampledFrom(w.seen).Draw(t, "seen")
	want := w.model.Requeue(context.Background(), r)
	w.each(t, "requeue", want, func(_ int, s *Side) error { return s.Fence.Requeue(context.Background(), r) })
}

func (w *world) bar(t *rapid.T) {
	name, token := rapid.SampledFrom(randomNames).Draw(t, "name"), fence.Token(rapid.IntRange(1, 12).Draw(t, "token"))
	want := w.model.Bar(context.Background(), name, token)
	w.each(t, "bar", want, func(_ int, s *Side) error { return s.Bar(context.Background(), name, token) })
}

func (w *world) prune(t *rapid.T) {
	model, want := w.model.Prune(context.Background(), 0)
	w.each(t, "prune", want, func(_ int, s *Side) error {
		real, err := s.Prune(context.Background(), 0)
		if real != model {
			t.Fatalf("prune: %s dropped %d rows, the model %d", s.Name, real, model)
		}
		return err
	})
	for _, name := range randomNames {
		if _, err := w.model.Row(context.Background(), name); err != nil {
			delete(w.marks, name) // a new row knows nothing of the old one's writes
		}
	}
}
