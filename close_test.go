package stint

import (
	"errors"
	"sync"
	"testing"
	"time"
)

func TestCloseMayBeCalledFromEverywhereAtOnce(t *testing.T) {
	for range 200 {
		c := must[*Client](t)(New(everHeld{}, Options{}))
		l := must[*Lease](t)(c.Acquire(t.Context(), "job"))
		var all sync.WaitGroup
		start := make(chan struct{})
		for range 4 {
			all.Go(func() {
				<-start
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				if err := l.Err(); !errors.Is(err, ErrReleased) {
					t.Errorf("after Close: %v", err)
				}
			})
		}
		close(start)
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("Close hangs")
		}
	}
}
