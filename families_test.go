package stint

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-dev/stint/authority/authoritytest/faulty"
	"github.com/stint-dev/stint/internal/protocol"
)

func TestAContextThatEndsEndsAllItsLeasesAndNoOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		type key struct{}
		var his []*Lease
		for i := range 5 { // some of them under a context that is done with the same channel
			his = append(his, must[*Lease](t)(c.Acquire(context.WithValue(ctx, key{}, i), fmt.Sprint("his/", i))))
		}
		given := his[1]
		if err := given.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		his = append(his[:1], his[2:]...)
		other := must[*Lease](t)(c.Acquire(t.Context(), "other"))
		forever := must[*Lease](t)(c.Acquire(context.Background(), "forever"))

		gone := errors.New("the caller went away")
		cancel(gone)
		for _, l := range his {
			<-l.Context().Done()
		}
		synctest.Wait()
		for _, l := range his {
			if err := l.Err(); !errors.Is(err, ErrCancelled) || !errors.Is(err, gone) {
				t.Errorf("%s: %v", l.Name(), err)
			}
		}
		wantHeld(t, other)
		wantHeld(t, forever)
		if err := given.Err(); !errors.Is(err, ErrReleased) {
			t.Errorf("released before: %v", err)
		}
		if late, err := c.Acquire(ctx, "late"); err == nil {
			t.Errorf("acquired %s under a context that is done", late.Name())
		}
		looked := make(chan int, 1)
		c.rt.post(posted{do: func() { looked <- len(c.rt.families) }})
		if n := <-looked; n != 1 { // the test's own
			t.Errorf("%d contexts are still looked at", n)
		}
	})
}

// The answer to an acquire and the end of its context come in one turn, and the
// answer is first.
func TestALeaseThatIsGrantedAsItsContextEndsIsEndedToo(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.net.SetPlan(nth("acquire", 2, faulty.Delay(time.Second)))
		c := b.client(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := must[*Lease](t)(c.Acquire(ctx, "first"))
		second, result := c.newLease(ctx, "second", false)
		c.rt.post(posted{lease: second, event: protocol.Start{}})
		synctest.Wait()
		goes := make(chan struct{})
		c.rt.post(posted{do: func() { <-goes }})
		time.Sleep(1100 * time.Millisecond)
		cancel()
		synctest.Wait()
		close(goes)
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, l := range []*Lease{first, second} {
			if err := l.Err(); !errors.Is(err, ErrCancelled) {
				t.Errorf("%s: %v", l.Name(), err)
			}
		}
	})
}

// Nobody has asked for the context while the lease was held: it still says why
// the lease is over, and not what its parent came to later.
func TestAContextThatIsAskedForAfterTheEndSaysWhyTheLeaseIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		c := b.client(Options{})
		for what, end := range map[string]func(l *Lease, cancel func(error)) error{
			"released": func(l *Lease, _ func(error)) error { _ = l.Release(t.Context()); return ErrReleased },
			"cancelled": func(_ *Lease, cancel func(error)) error {
				gone := errors.New("the caller went away")
				cancel(gone)
				return gone
			},
			"expired": func(*Lease, func(error)) error {
				b.cut()
				defer b.heal()
				time.Sleep(20 * time.Second)
				return ErrExpired
			},
		} {
			parent, cancel := context.WithCancelCause(t.Context())
			l := must[*Lease](t)(c.Acquire(parent, what))
			want := end(l, cancel)
			synctest.Wait()
			cancel(errors.New("too late to matter"))
			ctx := l.Context()
			select {
			case <-ctx.Done():
			default:
				t.Fatalf("%s: the context is not done", what)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, want) {
				t.Errorf("%s: the cause is %v", what, cause)
			}
			if l.Context() != ctx {
				t.Errorf("%s: another context the second time", what)
			}
		}
	})
}
