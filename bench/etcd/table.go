//go:build !race

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// bench is one run, and what came of it.
type bench struct {
	ctx    context.Context
	out    io.Writer
	scale  scale
	nodes  []int
	missed int // bars

	profile  string // see -profile
	profiles int    // that were written
	workers  int    // see -workers
}

func (b *bench) title(format string, args ...any) {
	fmt.Fprintf(b.out, "\n%s\n", fmt.Sprintf(format, args...))
}

func (b *bench) row(what, format string, args ...any) {
	fmt.Fprintf(b.out, "  %-34s %s\n", what, fmt.Sprintf(format, args...))
}

// atLeast and atMost print a promise beside what was measured, and count it when
// it is missed.
func (b *bench) atLeast(what string, got, bar float64) { b.bar(what, got, bar, "at least", got >= bar) }
func (b *bench) atMost(what string, got, bar float64)  { b.bar(what, got, bar, "at most", got <= bar) }

func (b *bench) bar(what string, got, bar float64, which string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		b.missed++
	}
	b.row("  bar: "+what, "%.3g (%s %.3g: %s)", got, which, bar, verdict)
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	if len(all) == 0 {
		return 0
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// percentiles are p50, p90 and p99 in milliseconds.
type percentiles [3]float64

func percentilesOf(all []time.Duration) (p percentiles) {
	all = slices.Sorted(slices.Values(all))
	if len(all) == 0 {
		return p
	}
	for i, part := range []float64{0.5, 0.9, 0.99} {
		at := min(int(part*float64(len(all))), len(all)-1)
		p[i] = float64(all[at].Microseconds()) / 1000
	}
	return p
}

func (p percentiles) String() string { return fmt.Sprintf("%7.2f %7.2f %7.2f", p[0], p[1], p[2]) }

// per is p over q, one by one.
func (p percentiles) per(q percentiles) percentiles {
	for i := range p {
		p[i] /= max(q[i], 0.001)
	}
	return p
}

// turn runs the alternatives one after the other, the first one first in every
// other turn, and collects what each gives.
func turns[T any](n int, alternatives ...func() (T, error)) ([][]T, error) {
	all := make([][]T, len(alternatives))
	for turn := range n {
		for k := range alternatives {
			if turn%2 == 1 {
				k = len(alternatives) - 1 - k
			}
			v, err := alternatives[k]()
			if err != nil {
				return nil, err
			}
			all[k] = append(all[k], v)
		}
	}
	return all, nil
}
