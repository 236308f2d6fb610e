// Package stint runs a job under a fenced lease: one holder at a time, who stops
// by its own clock before anyone else is let in, with a token that the resource
// checks.
package stint

import (
	"context"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Options sets the times of a Client's leases. The zero value is a lease of 10 s
// with everything else in proportion.
type Options struct {
	// TTL is the lease length: how long the authority keeps the lease without a
	// renewal. Default 10 s.
	TTL time.Duration
	// Margin is how long before the authority lets go the holder has stopped.
	// Default 0.2 TTL. It pays for clocks of different rates and for the time
	// that stopping takes.
	Margin time.Duration
	// Renew is the time between renewals. Default 0.3 TTL.
	Renew time.Duration
	// Timeout bounds one request to the authority. Default 0.15 TTL.
	Timeout time.Duration
	// Wait bounds the waiting in Acquire and Do alone; zero waits until ctx ends.
	Wait time.Duration
	// BeatWithin, if set, binds renewal to Lease.Beat: a lease whose last beat is
	// longer ago is not renewed, and so runs out. Default: renewal is bound to the
	// context alone.
	BeatWithin time.Duration
	// Holder says who asks, for people. Default "host pid 4711".
	Holder string
	// Waiting, if set, is called with what the authority said each time that
	// Acquire is told to wait. It must not block.
	Waiting func(authority.State)
}

// Client takes leases from one authority. It is safe for concurrent use.
type Client struct{}

// New makes a Client. It returns every bad setting in one error. The authority
// stays the caller's to close.
func New(a authority.Authority, o Options) (*Client, error) { panic("skeleton") }

// With returns a Client of the same connection and loop with other settings.
// Closing either closes both.
func (c *Client) With(o Options) (*Client, error) { panic("skeleton") }

// TryAcquire makes one attempt: an error that matches ErrHeld if somebody else holds it.
func (c *Client) TryAcquire(ctx context.Context, name string) (*Lease, error) { panic("skeleton") }

// Acquire waits for the lease. ctx ends the wait and, later, the lease.
func (c *Client) Acquire(ctx context.Context, name string) (*Lease, error) { panic("skeleton") }

// Do acquires, runs f with the lease's context, and releases when f has returned.
func (c *Client) Do(ctx context.Context, name string, f func(context.Context, *Lease) error) error {
	panic("skeleton")
}

// Close releases every lease and ends the loop.
func (c *Client) Close() error { panic("skeleton") }
