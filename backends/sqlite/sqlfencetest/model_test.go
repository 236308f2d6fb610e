package sqlfencetest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// A random program runs against fence.Memory and against SQLite, step by step.
// Every answer, every row and all data must be the same.
func TestRandomProgramsGiveTheSameHistoryInMemoryAndOnSQLite(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := newWorld(t, filepath.Join(dir, fmt.Sprint(n, ".db")))
		defer w.close()
		w.raiseTo(t, names[0], grant(1, "x"))
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

// world is a store under test, the model of it, and the holders.
type world struct {
	s     *store
	hasty *sqlfence.Fence // gives up settling at once; for when everything is down
	net   *network
	model *fence.Memory
	data  []string
	marks map[string]int // by name: the write that was admitted last
	all   []*holder
	seen  []fence.Row
	n     int // writes begun
}

// holder is a claim on both sides. pending is what only the model knows of a
// write whose answer was lost.
type holder struct {
	real, model fence.Claim
	pending     *pending
	applied     bool // what Settle has to say
}

type pending struct {
	write   int
	applied bool
	before  int64
}

var names = []string{"a", "b", "c"}

func newWorld(t *rapid.T, path string) *world {
	w := &world{net: &network{}, model: fence.NewMemory(), marks: map[string]int{}}
	s, err := openStore("file:"+path+"?"+modes[1].params, w.net.hook)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	w.hasty, err = sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite, Settle: time.Millisecond})
	if err == nil {
		err = s.f.Migrate(context.Background())
	}
	if err == nil {
		_, err = s.db.Exec(table)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) close() { _ = w.s.db.Close() }

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
	for _, s := range append(slices.Clone(sentinels), errAbandon) {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return err.Error()
}

func (w *world) same(t *rapid.T, what string, real, model error) {
	t.Helper()
	if kind(real) != kind(model) {
		t.Fatalf("%s: SQLite says %v, the model %v", what, real, model)
	}
}

func sameRow(t *rapid.T, what string, real, model fence.Row) {
	t.Helper()
	real.Since, model.Since = time.Time{}, time.Time{}
	if real != model {
		t.Fatalf("%s: SQLite has %+v, the model %+v", what, real, model)
	}
}

func (w *world) holder(t *rapid.T) *holder {
	return rapid.SampledFrom(w.all).Draw(t, "holder")
}

func (w *world) raise(t *rapid.T) {
	name := rapid.SampledFrom(names).Draw(t, "name")
	g := grant(fence.Token(rapid.IntRange(1, 12).Draw(t, "token")), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "nonce"))
	w.raiseTo(t, name, g)
}

func (w *world) raiseTo(t *rapid.T, name string, g fence.Grant) {
	real, err := w.s.f.Raise(context.Background(), name, g)
	model, want := w.model.Raise(context.Background(), name, g)
	w.same(t, fmt.Sprintf("raise %s %v", name, g), err, want)
	if err == nil {
		sameRow(t, "previous", real.Previous, model.Previous)
		w.all = append(w.all, &holder{real: real, model: model})
	}
}

func (w *world) resume(t *rapid.T) {
	h := w.holder(t)
	real, err := fence.Resume(h.real.Name, h.real.Grant)
	if err != nil {
		t.Fatal(err)
	}
	model, _ := fence.Resume(h.real.Name, h.real.Grant)
	w.all = append(w.all, &holder{real: real, model: model})
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
	s := *w.s
	var between func() error
	switch fault {
	case "abandon":
		between = func() error { return errAbandon }
	case "drop COMMIT", "cut before":
		w.net.lose(fault == "cut before", commits(faultsql.Before))
	case "drop answer", "cut after":
		w.net.lose(fault == "cut after", commits(faultsql.After))
	}
	if w.net.stay {
		s.f = w.hasty
	}
	err := s.write(context.Background(), h.real, "k", value, between)
	w.net.heal()
	w.same(t, fmt.Sprintf("write %q by %v of %s", fault, h.real.Grant, h.real.Name), err, w.modelWrite(h, value, fault))
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
	applied, err := w.s.f.Settle(context.Background(), h.real)
	model, want := w.modelSettle(h)
	w.same(t, "settle", err, want)
	if applied != model {
		t.Fatalf("settle: SQLite says %v, the model %v", applied, model)
	}
}

func (w *world) finish(t *rapid.T) {
	h := w.holder(t)
	err := w.s.f.Finish(context.Background(), h.real)
	if h.pending != nil {
		w.same(t, "finish", err, fence.ErrUnknown)
		return
	}
	w.same(t, "finish", err, w.model.Finish(context.Background(), h.model))
}

func (w *world) check(t *rapid.T) {
	h := w.holder(t)
	w.same(t, "check", w.s.f.Check(context.Background(), h.real), w.model.Check(context.Background(), h.model))
}

func (w *world) requeue(t *rapid.T) {
	r := rapid.SampledFrom(w.seen).Draw(t, "seen")
	w.same(t, "requeue", w.s.f.Requeue(context.Background(), r), w.model.Requeue(context.Background(), r))
}

func (w *world) bar(t *rapid.T) {
	name, token := rapid.SampledFrom(names).Draw(t, "name"), fence.Token(rapid.IntRange(1, 12).Draw(t, "token"))
	w.same(t, "bar", w.s.f.Bar(context.Background(), name, token), w.model.Bar(context.Background(), name, token))
}

func (w *world) prune(t *rapid.T) {
	real, err := w.s.f.Prune(context.Background(), 0)
	model, want := w.model.Prune(context.Background(), 0)
	w.same(t, "prune", err, want)
	if real != model {
		t.Fatalf("prune: SQLite dropped %d rows, the model %d", real, model)
	}
	for _, name := range names {
		if _, err := w.model.Row(context.Background(), name); err != nil {
			delete(w.marks, name) // a new row knows nothing of the old one's writes
		}
	}
}

// compare is done after every step.
func (w *world) compare(t *rapid.T) {
	for _, name := range names {
		real, err := w.s.f.Row(context.Background(), name)
		model, want := w.model.Row(context.Background(), name)
		w.same(t, "row", err, want)
		sameRow(t, "row", real, model)
	}
	rows, err := w.s.db.Query("SELECT v FROM data ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var data []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		data = append(data, v)
	}
	if !slices.Equal(data, w.data) {
		t.Fatalf("SQLite holds %v, the model %v", data, w.data)
	}
	w.compareClaims(t)
}

func (w *world) compareClaims(t *rapid.T) {
	var real, model []fence.Row
	for r, err := range w.s.f.Claims(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		real = append(real, r)
	}
	for r := range w.model.Claims(context.Background()) {
		model = append(model, r)
	}
	if len(real) != len(model) {
		t.Fatalf("SQLite lists %v, the model %v", real, model)
	}
	for i, r := range real {
		sameRow(t, "claim", r, model[i])
		if !slices.ContainsFunc(w.seen, func(s fence.Row) bool { return s.Name == r.Name && s.Fence == r.Fence && s.Nonce == r.Nonce }) {
			w.seen = append(w.seen, r)
		}
	}
}
