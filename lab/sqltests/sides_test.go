package sqltests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// side is one store of a world, behind a network that loses what it is told to.
type side struct {
	*store
	name  string
	hasty *sqlfence.Fence // gives up settling at once; for when everything is down
	net   *network
}

func newWorld(t *rapid.T, places []place) *world {
	w := &world{model: fence.NewMemory(), marks: map[string]int{}}
	for i, p := range places {
		p = p.beside()
		s := &side{name: databases[i].String(), net: &network{}}
		var err error
		if s.store, err = p.open(s.net.hook); err != nil {
			t.Fatal(err)
		}
		w.sides = append(w.sides, s)
		s.hasty, err = sqlfence.New(s.db, sqlfence.Options{Dialect: p.Dialect, Table: p.Fence, Settle: time.Millisecond})
		if err == nil {
			err = p.create()
		}
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	return w
}

func (w *world) close() {
	for _, s := range w.sides {
		_ = s.db.Close()
	}
}

// each does the same on all sides; the answers must be the model's.
func (w *world) each(t *rapid.T, what string, want error, do func(i int, s *side) error) {
	t.Helper()
	for i, s := range w.sides {
		if err := do(i, s); kind(err) != kind(want) {
			t.Fatalf("%s: %s says %v, the model %v", what, s.name, err, want)
		}
	}
}

var errAbandon = errors.New("abandoned on purpose")

func (s *side) writeWith(c fence.Claim, value, fault string) error {
	var between func() error
	switch fault {
	case "abandon":
		between = func() error { return errAbandon }
	case "drop COMMIT", "cut before":
		s.net.lose(fault == "cut before", commits(faultsql.Before))
	case "drop answer", "cut after":
		s.net.lose(fault == "cut after", commits(faultsql.After))
	}
	defer s.net.heal()
	with := *s.store
	if s.net.stay {
		with.f = s.hasty
	}
	return with.write(context.Background(), c, "k", value, between)
}

// kind is what an error means to a caller.
func kind(err error) string {
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

func (s *side) sameRow(t *rapid.T, what string, real, model fence.Row) {
	t.Helper()
	real.Since, model.Since = time.Time{}, time.Time{}
	if real != model {
		t.Fatalf("%s: %s has %+v, the model %+v", what, s.name, real, model)
	}
}

// compare is done after every step.
func (w *world) compare(t *rapid.T) {
	for _, name := range names {
		model, want := w.model.Row(context.Background(), name)
		w.each(t, "row", want, func(_ int, s *side) error {
			real, err := s.f.Row(context.Background(), name)
			s.sameRow(t, "row", real, model)
			return err
		})
	}
	var model []fence.Row
	for r := range w.model.Claims(context.Background()) {
		model = append(model, r)
	}
	for _, s := range w.sides {
		data, err := s.values()
		if err != nil || !slices.Equal(data, w.data) {
			t.Fatalf("%s holds %v (%v), the model %v", s.name, data, err, w.data)
		}
		s.compareClaims(t, model)
	}
	for _, r := range model {
		if !slices.ContainsFunc(w.seen, func(s fence.Row) bool { return s.Name == r.Name && s.Fence == r.Fence && s.Nonce == r.Nonce }) {
			w.seen = append(w.seen, r)
		}
	}
}

func (s *side) compareClaims(t *rapid.T, model []fence.Row) {
	var real []fence.Row
	for r, err := range s.f.Claims(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		real = append(real, r)
	}
	if len(real) != len(model) {
		t.Fatalf("%s lists %v, the model %v", s.name, real, model)
	}
	for i, r := range real {
		s.sameRow(t, "claim", r, model[i])
	}
}

// values is all data, in the order in which it was written.
func (s *store) values() (all []string, err error) {
	rows, err := s.db.Query(s.q("SELECT v FROM {d} ORDER BY id"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
