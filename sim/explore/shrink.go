package explore

import (
	"context"
	"slices"
	"time"
)

// shrinkRuns bounds the runs that shrinking one plan may take.
const shrinkRuns = 4000

// shrinker looks for a smaller plan that breaks the same promise.
type shrinker struct {
	ctx      context.Context
	promise  string
	runs     int
	left     int // faults of the smallest plan so far
	progress func(left, tried int)
}

// Shrink leaves out of a plan what its violation does not need: first faults, in
// blocks that get smaller, then settings, then the odd digits of its times. The
// plan must break a promise; the smaller one breaks the same. When the context
// ends, it is the smallest one so far. Progress may be nil; it is told before each
// plan that is tried how many faults are left, and how many plans were tried.
func Shrink(ctx context.Context, p Plan, progress func(left, tried int)) Plan {
	r := Run(p, false)
	if r.Broken == nil {
		return p
	}
	s := &shrinker{ctx: ctx, promise: r.Broken.Promise, left: len(p.Faults), progress: progress}
	for {
		before := len(p.Faults)
		p = s.fewer(p)
		p = s.simpler(p)
		if len(p.Faults) == before || s.runs >= shrinkRuns || ctx.Err() != nil {
			break
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b Fault) int { return int(max(-1, min(1, a.At-b.At))) })
	return p
}

// breaks reports whether a plan still breaks the promise.
func (s *shrinker) breaks(p Plan) bool {
	if s.ctx.Err() != nil || s.runs >= shrinkRuns {
		return false
	}
	if s.progress != nil {
		s.progress(s.left, s.runs)
	}
	s.runs++
	if !s.same(p) {
		return false
	}
	s.left = len(p.Faults)
	return true
}

// same runs a plan, and without its rules' absence once more.
func (s *shrinker) same(p Plan) bool {
	if p.Check() != nil {
		return false
	}
	// Where nobody starts, nothing gets done, and that shows nothing.
	if s.promise == PromiseDone && !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.What == "start" }) {
		return false
	}
	if r := Run(p, false); r.Broken == nil || r.Broken.Promise != s.promise {
		return false
	}
	if p.Without == 0 {
		return true
	}
	// What breaks with every rule on, too, shows nothing of the rule: a world
	// where nobody starts gets nothing done either way.
	p.Without = 0
	r := Run(p, false)
	return r.Broken == nil || r.Broken.Promise != s.promise
}

// fewer leaves out blocks of faults: halves first, single ones in the end.
func (s *shrinker) fewer(p Plan) Plan {
	for size := len(p.Faults); size >= 1; size /= 2 {
		for from := 0; from < len(p.Faults); {
			to := min(from+size, len(p.Faults))
			less := p.With(slices.Concat(p.Faults[:from], p.Faults[to:]))
			if s.breaks(less) {
				p = less
			} else {
				from = to
			}
		}
	}
	return p
}

// simpler tries plainer settings and times, each alone.
func (s *shrinker) simpler(p Plan) Plan {
	try := func(change func(*Plan)) {
		q := p.With(slices.Clone(p.Faults))
		change(&q)
		if s.breaks(q) {
			p = q
		}
	}
	try(func(q *Plan) { q.Sweep, q.Again = 0, 0 })
	try(func(q *Plan) { q.Checkpoint = 0 })
	try(func(q *Plan) { q.Beat = 0 })
	for q := p; q.Workers > 1; {
		q.Workers--
		if !s.breaks(q) {
			break
		}
		p = q
	}
	for i := range p.Faults {
		for _, unit := range []time.Duration{time.Second, 100 * time.Millisecond} {
			try(func(q *Plan) { q.Faults[i].At = q.Faults[i].At.Round(unit) })
			try(func(q *Plan) { q.Faults[i].For = q.Faults[i].For.Round(unit) })
			try(func(q *Plan) { q.Faults[i].By = q.Faults[i].By.Round(unit) })
		}
	}
	return p
}
