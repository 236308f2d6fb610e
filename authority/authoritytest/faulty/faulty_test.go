package faulty_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/authority/memlease"
)

func TestALostRequestIsNotAppliedAndALostAnswerIs(t *testing.T) {
	inner := memlease.New(nil)
	defer inner.Close()
	plan := []faulty.Fault{faulty.DropRequest, faulty.DropAnswer, faulty.Pass}
	a := faulty.New(inner, func(_ string, n int) faulty.Fault { return plan[n-1] })
	r := authority.Request{Name: "x", Length: time.Minute, Nonce: "n"}
	for i, want := range []bool{false, true} {
		if _, err := a.Acquire(t.Context(), r); !errors.Is(err, faulty.ErrDropped) {
			t.Fatalf("try %d: %v", i, err)
		}
		if s, _ := inner.Inspect(t.Context(), "x"); s.Held != want {
			t.Errorf("after lost try %d held is %v", i, s.Held)
		}
	}
	if g, err := a.Acquire(t.Context(), r); err != nil || g.Token != 1 {
		t.Errorf("the third try found %+v, %v", g, err)
	}
	if n := a.Count("acquire"); n != 3 {
		t.Errorf("%d requests counted", n)
	}
}

func TestSilenceLastsUntilTheContextIsDone(t *testing.T) {
	inner := memlease.New(nil)
	defer inner.Close()
	a := faulty.New(inner, func(string, int) faulty.Fault { return faulty.Fault{DropAnswer: true, Hang: true} })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := a.Inspect(ctx, "x")
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, faulty.ErrDropped) {
		t.Errorf("got %v", err)
	}
}

func TestAFaultOfRenewAllIsOneOfAllItsGrants(t *testing.T) {
	inner := memlease.New(nil)
	defer inner.Close()
	grants := make([]authority.Grant, 3)
	for i := range grants {
		var err error
		r := authority.Request{Name: string(rune('x' + i)), Length: time.Minute, Nonce: "n"}
		if grants[i], err = inner.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for name, inner := range map[string]authority.Authority{"bulk": inner, "one by one": faulty.New(inner, nil)} {
		plan := []faulty.Fault{faulty.DropRequest, faulty.DropAnswer, faulty.Pass}
		a := faulty.NewBulk(inner, func(_ string, n int) faulty.Fault { return plan[n-1] })
		for i := range plan {
			answers := a.RenewAll(t.Context(), grants)
			if len(answers) != len(grants) || a.Count("renewall") != i+1 {
				t.Fatalf("%s: %d answers, %d requests", name, len(answers), a.Count("renewall"))
			}
			for j, r := range answers {
				if lost := plan[i] != faulty.Pass; errors.Is(r.Err, faulty.ErrDropped) != lost || !lost && r.Grant != grants[j] {
					t.Errorf("%s: %+v of %d: %+v", name, plan[i], j, r)
				}
			}
		}
	}
}
