// Package stint runs a job under a fenced lease: one holder at a time, who stops
// by its own clock before anyone else is let in, with a token that the resource
// checks.
//
//	err := stint.Do(ctx, "sqlite:///var/lib/stint/leases.db", "billing",
//		func(ctx context.Context, l *stint.Lease) error {
//			return bill(ctx, l.Grant()) // ctx is done before anyone else may start
//		})
//
// The lock alone cannot keep a paused worker from writing late. What it writes
// to has to refuse it: see package fence and fence/sqlfence.
package stint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/clock"
	"github.com/stint-dev/stint/internal/protocol"
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
	// Timeout bounds one request to the authority. Default 0.15 TTL, at most 5 s.
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
	// Retrying, if set, is called each time that a request had no definite answer
	// and is going to be tried again. It must not block.
	Retrying func(error)
}

func (o Options) times() protocol.Times {
	return protocol.Times{Length: o.TTL, Margin: o.Margin, Renew: o.Renew, Timeout: o.Timeout}.WithDefaults()
}

// Effective returns the options with the defaults filled in, or every rule that
// they break in one error.
func (o Options) Effective() (Options, error) {
	t := o.times()
	err := t.Check()
	if o.Wait < 0 {
		err = errors.Join(err, fmt.Errorf("wait %v: it cannot be negative", o.Wait))
	}
	if o.BeatWithin < 0 {
		err = errors.Join(err, fmt.Errorf("beat within %v: it cannot be negative", o.BeatWithin))
	}
	if err != nil {
		return o, fmt.Errorf("stint: %w", err)
	}
	o.TTL, o.Margin, o.Renew, o.Timeout = t.Length, t.Margin, t.Renew, t.Timeout
	if o.Holder == "" {
		o.Holder = thisProcess()
	}
	return o, nil
}

// thisProcess names the process for people.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}

// Client takes leases from one authority. It is safe for concurrent use. It
// runs one loop for all its leases, which Close ends.
type Client struct {
	rt     *runtime
	o      Options
	prefix func() string // of a new lease's nonces
	// What the machines of its leases go by: those that do not wait, and that do.
	machines [2]protocol.Config
}

// New makes a Client. It returns every bad setting in one error. The authority
// stays the caller's to close, after the Client.
func New(a authority.Authority, o Options) (*Client, error) { return newClient(a, o, clock.Boot()) }

func newClient(a authority.Authority, o Options, c clock.Clock) (*Client, error) {
	o, err := o.Effective()
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, errors.New("stint: no authority was given; open one with authority.Open")
	}
	rt, err := newRuntime(a, c)
	if err != nil {
		return nil, fmt.Errorf("stint: %w", err)
	}
	go rt.loop()
	return clientOf(rt, o, randomPrefix), nil
}

// clientOf makes a Client of options that are complete.
func clientOf(rt *runtime, o Options, prefix func() string) *Client {
	c := &Client{rt: rt, o: o, prefix: prefix}
	for i := range c.machines {
		c.machines[i] = protocol.Config{Times: o.times(), Wait: i == 1, Queuer: rt.queuer != nil, BeatWithin: o.BeatWithin}
	}
	return c
}

// randomPrefix makes nonces unique in the world: 60 random bits and more.
func randomPrefix() string { return strings.ToLower(rand.Text()[:12]) }

// With returns a Client of the same authority and loop with other settings.
// Closing either closes both.
func (c *Client) With(o Options) (*Client, error) {
	o, err := o.Effective()
	if err != nil {
		return nil, err
	}
	return clientOf(c.rt, o, c.prefix), nil
}

var serials atomic.Uint64

// TryAcquire makes one attempt, and does not wait while somebody else holds the
// name: then the error matches ErrHeld. Other errors: ErrNoAnswer, ErrTooLate,
// authority.ErrInvalid, ErrClosed, or ctx's.
//
// Leases are not reentrant: a second Acquire of a name waits for the first, in
// the same process too.
func (c *Client) TryAcquire(ctx context.Context, name string) (*Lease, error) {
	return c.acquire(ctx, name, false)
}

// Acquire waits for the lease, in line where the authority keeps one. ctx ends
// the wait and, later, the lease; Options.Wait bounds the waiting alone. A wait
// that ends leaves nothing behind. Where ctx ends while the authority fails, the
// error matches ctx's cause and what the authority said last.
func (c *Client) Acquire(ctx context.Context, name string) (*Lease, error) {
	return c.acquire(ctx, name, true)
}

func (c *Client) acquire(ctx context.Context, name string, wait bool) (*Lease, error) {
	if err := fence.CheckName(name); err != nil {
		return nil, fmt.Errorf("stint: %w: %w", authority.ErrInvalid, err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("stint: acquiring %q: %w", name, err)
	}
	l, result := c.newLease(ctx, name, wait)
	givenUp := func() { c.rt.post(posted{lease: l, event: protocol.Cancel{Cause: context.Cause(ctx)}}) }
	if !c.rt.await(ctx, posted{lease: l, event: protocol.Start{}}, givenUp) {
		return nil, fmt.Errorf("stint: acquiring %q: %w", name, ErrClosed)
	}
	select {
	case err := <-result:
		return l.orNil(err)
	case <-ctx.Done():
	}
	givenUp() // once more does no harm
	if err := <-result; err != nil {
		return nil, err
	}
	// Granted in the same moment: nobody is going to use it.
	c.rt.post(posted{lease: l, event: protocol.Release{}})
	return nil, fmt.Errorf("stint: acquiring %q: %w", name, context.Cause(ctx))
}

// newLease makes a lease, and what says how its acquire has ended.
func (c *Client) newLease(ctx context.Context, name string, wait bool) (*Lease, <-chan error) {
	cfg, until := &c.machines[0], authority.Instant(0)
	if wait {
		cfg = &c.machines[1]
		if c.o.Wait > 0 {
			until = c.rt.clock.Now().Add(c.o.Wait)
		}
	}
	prefix, result := c.prefix(), make(chan error, 1)
	l := &Lease{
		c: c, serial: serials.Add(1), parent: ctx, name: name, prefix: prefix, queues: cfg.Wait && cfg.Queuer,
		machine: protocol.NewHolderOf(cfg, prefix, until), result: result,
	}
	l.calls = l.lone[:0]
	return l, result
}

// orNil is the lease unless it was not granted.
func (l *Lease) orNil(err error) (*Lease, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Close ends every lease and every wait of the Client, gives the leases back,
// each by itself, and ends the loop. Call it when the work has returned. It
// waits at most twice Options.Timeout for that, and as long again for requests
// under way if the authority does not listen to their contexts; the error names every lease whose release
// was not confirmed by then, which runs out by itself.
func (c *Client) Close() error {
	c.rt.mu.Lock()
	already := c.rt.closed
	c.rt.mu.Unlock()
	if already {
		<-c.rt.done
		return nil
	}
	leases, err := c.rt.close(2 * c.o.Timeout)
	errs := []error{err}
	for _, l := range leases {
		if !l.granted {
			continue
		}
		select {
		case <-l.whenSettled():
			if !errors.Is(l.settle, authority.ErrNotHeld) { // over already is as good
				errs = append(errs, l.settle)
			}
		default:
			errs = append(errs, fmt.Errorf("stint: the release of %q (token %d) was not confirmed; it runs out by itself within %v",
				l.Name(), l.Token(), c.o.TTL))
		}
	}
	return errors.Join(errs...)
}
