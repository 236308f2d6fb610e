package stint

import (
	"context"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Lease is the holder's side of a grant. It is safe for concurrent use.
type Lease struct{}

func (l *Lease) Name() string             { panic("skeleton") }
func (l *Lease) Token() fence.Token       { panic("skeleton") }
func (l *Lease) Grant() fence.Grant       { panic("skeleton") }
func (l *Lease) Context() context.Context { panic("skeleton") }
func (l *Lease) Err() error               { panic("skeleton") }
func (l *Lease) Beat()                    { panic("skeleton") }

func (l *Lease) Release(ctx context.Context) error { panic("skeleton") }
func (l *Lease) Status() Status                    { panic("skeleton") }

// Status is a lease at one moment.
type Status struct {
	Held     bool
	Left     time.Duration // until the stop time, by the holder's clock
	Renewals int
	Retries  int   // tries that failed or whose answer was lost
	LastErr  error // of the last failed try, nil after a success
}
