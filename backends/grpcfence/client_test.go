package grpcfence_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/stint-dev/stint/backends/grpcfence"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

// counting is a lease's context that counts who waits for its end.
type counting struct {
	context.Context
	waiting atomic.Int64
}

// Value hides what package context would use in place of AfterFunc.
func (c *counting) Value(any) any { return nil }

func (c *counting) AfterFunc(f func()) (stop func() bool) {
	c.waiting.Add(1)
	let := context.AfterFunc(c.Context, f)
	return func() bool {
		c.waiting.Add(-1)
		return let()
	}
}

func TestAStreamThatIsLeftAloneLetsGoOfTheLease(t *testing.T) {
	c := serve(t, fence.NewMemory(), gate.Options{}, grpcfence.Options{},
		&service{stream: func(_ grpc.ServerStream, recv func() error) error { return recv() }})
	over, cancel := context.WithCancel(t.Context())
	defer cancel()
	lease := &counting{Context: over}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if _, err := c.FullDuplexCall(grpcfence.WithHolder(ctx, httpfence.Claim(lease, fence.Claim{Name: job, Grant: grant(7)}))); err != nil {
		t.Fatal(err)
	}
	if n := lease.waiting.Load(); n != 1 {
		t.Errorf("%d wait for the end of the lease", n)
	}
	leave() // and no more is asked of the stream, as gRPC allows
	for started := time.Now(); lease.waiting.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Since(started) > patience {
			t.Fatal("the stream still waits for the end of the lease")
		}
	}
}
