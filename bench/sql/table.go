//go:build !race

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// bench is one run, and what came of it.
type bench struct {
	ctx    context.Context
	out    io.Writer
	scale  scale
	parts  map[string]bool
	missed int // bars
}

func (b *bench) title(format string, args ...any) {
	fmt.Fprintf(b.out, "\n%s\n", fmt.Sprintf(format, args...))
}

func (b *bench) row(what, format string, args ...any) {
	fmt.Fprintf(b.out, "  %-34s %s\n", what, fmt.Sprintf(format, args...))
}

// bar prints a promise beside what was measured, and counts it when it is missed.
func (b *bench) bar(what, promise string, met bool) {
	verdict := "met"
	if !met {
		verdict = "MISSED"
		b.missed++
	}
	b.row("  bar: "+what, "%s: %s", promise, verdict)
}

// interval is a median with the bounds between which the true one lies with 95 %
// confidence, by the order of the values alone (binomial, so no distribution is
// assumed).
type interval struct{ median, low, high float64 }

func intervalOf(all []float64) interval {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	if n == 0 {
		return interval{}
	}
	k := int(math.Floor((float64(n) - 1.96*math.Sqrt(float64(n))) / 2))
	k = max(k, 0)
	return interval{(all[(n-1)/2] + all[n/2]) / 2, all[k], all[n-1-k]}
}

func (i interval) format(digits int) string {
	return fmt.Sprintf("%.*f (%.*f to %.*f)", digits, i.median, digits, i.low, digits, i.high)
}

// pairs runs two alternatives in turn, the first one first in every other pair,
// and gives the seconds of each and the ratio of each pair.
func (b *bench) pairs(n int, plain, fenced func() error) (p, f, ratio []float64, err error) {
	for turn := range n {
		var took [2]float64
		for k := range 2 {
			if turn%2 == 1 {
				k = 1 - k
			}
			do := plain
			if k == 1 {
				do = fenced
			}
			begun := time.Now()
			if err := do(); err != nil {
				return nil, nil, nil, err
			}
			took[k] = time.Since(begun).Seconds()
		}
		p, f, ratio = append(p, took[0]), append(f, took[1]), append(ratio, took[1]/took[0])
	}
	return p, f, ratio, nil
}

func scaled(all []float64, by float64) []float64 {
	out := make([]float64, len(all))
	for i, v := range all {
		out[i] = v * by
	}
	return out
}
