package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// Options are the settings of New. The zero value is good.
type Options struct {
	// Prefix is what all keys begin with, "stint" if empty: PREFIX/lock/NAME/…
	// Clients that shall see each other's leases use the same one. It is what a
	// URL's path may be: without slashes at its ends, and with none of the parts
	// "lock", "floor" and "client".
	Prefix string
	// Timeout is how long one request to one member may take before another
	// member is asked; 1 s if zero. Renewals of short leases take less.
	Timeout time.Duration
	// OwnClient lets Close close the client too.
	OwnClient bool

	// explain puts etcd's errors into plain words; explainRead those of reads.
	explain, explainRead func(error) error
}

func (o Options) check() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	errs := []error{checkPrefix(o.Prefix)}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Timeout < 10*time.Millisecond || o.Timeout > time.Minute {
		errs = append(errs, fmt.Errorf("a Timeout of %v, outside 10ms to 1m", o.Timeout))
	}
	if o.explain == nil {
		w := &words{prefix: o.Prefix}
		o.explain, o.explainRead = w.explain, w.explainRead
	}
	if err := errors.Join(errs...); err != nil {
		return o, fmt.Errorf("etcdlease: %w: %w", authority.ErrInvalid, err)
	}
	return o, nil
}

// New makes an authority of an etcd client: one that was made by clientv3.New,
// or the in-process client of an embedded server. It sends nothing yet, so it
// does not fail when no server can be reached. The client must stay open until
// the authority is closed. Each member is reached by a connection of its own,
// made with the client's settings, since etcd's own balancing asks the members
// in turn, and only the leader answers without asking another.
func New(client *clientv3.Client, o Options) (*Authority, error) {
	if client == nil {
		return nil, fmt.Errorf("etcdlease: %w: no client", authority.ErrInvalid)
	}
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &Authority{
		client: client, limited: client.Username != "", o: o, keys: keyspace{o.Prefix}, ctx: ctx, cancel: cancel,
		closed:  make(chan struct{}),
		places:  map[string]*place{},
		nonces:  map[nonce]*place{},
		waiting: map[wait]*place{},
		current: map[time.Duration][]*session{},
		all:     map[*session]struct{}{},
		lines:   map[string]*line{},
	}
	if a.net, err = newNetwork(ctx, client, o.Timeout); err != nil {
		cancel()
		return nil, fmt.Errorf("etcdlease: %w: %w", authority.ErrInvalid, err)
	}
	a.net.hunt()
	return a, nil
}

// seconds refuses lengths that etcd cannot keep: it counts whole seconds. What
// its minimum is, only the server knows.
func seconds(d time.Duration) error {
	err := authority.CheckLength(d)
	var short *authority.LengthError
	switch {
	case errors.As(err, &short) && d < time.Second:
		return &authority.LengthError{Asked: d, Nearest: time.Second, Why: short.Why}
	case err != nil:
		return err
	case d%time.Second != 0:
		return &authority.LengthError{Asked: d, Nearest: max(d.Round(time.Second), time.Second), Why: "etcd keeps whole seconds only"}
	}
	return nil
}
