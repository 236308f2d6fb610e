package explore

import (
	"context"
	"time"

	"github.com/stint-dev/stint/authority"
)

// SearchOptions bound an exhaustive search.
type SearchOptions struct {
	SmallConfig
	Steps    int            // events on a path
	States   int            // that are visited at most
	Progress func(Searched) // is called now and then, with what was visited so far
}

// Searched is what a search has seen.
type Searched struct {
	States int  // different ones
	Paths  int  // moves that were tried
	Steps  int  // every state that so many events reach was visited
	Whole  bool // every state of the world was: no longer path leads to a new one
	Took   time.Duration
	Broken *Broken
	Story  []string // of the shortest path to the violation
}

// Search visits every state of a small world, in the order of the number of
// events that lead to it. The first violation is one of a shortest path.
//
// Machines cannot be copied, and need not be: a state is the path that leads to
// it, and is made again from the beginning.
func Search(ctx context.Context, o SearchOptions) Searched {
	began := authority.BootClock{}.Now()
	seen := map[hash64]bool{newSmall(o.SmallConfig).hash(): true}
	level := [][]move{nil}
	out := Searched{States: 1}
	for len(level) > 0 && out.Steps < o.Steps {
		var next [][]move
		for n, path := range level {
			if ctx.Err() != nil || len(seen) >= o.States {
				out.States = len(seen)
				out.Took = authority.BootClock{}.Now().Sub(began)
				return out
			}
			if n%1000 == 999 && o.Progress != nil { // a level may take minutes
				out.States = len(seen)
				o.Progress(out)
			}
			for _, m := range replay(o.SmallConfig, path, false).moves() {
				longer := append(path[:len(path):len(path)], m)
				s := replay(o.SmallConfig, longer, false)
				out.Paths++
				if s.broken != nil {
					out.States, out.Broken = len(seen), s.broken
					out.Story = replay(o.SmallConfig, longer, true).told
					out.Took = authority.BootClock{}.Now().Sub(began)
					return out
				}
				if h := s.hash(); !seen[h] {
					seen[h] = true
					next = append(next, longer)
				}
			}
		}
		level = next
		out.Steps++
		out.States = len(seen)
		out.Took = authority.BootClock{}.Now().Sub(began)
		if o.Progress != nil {
			o.Progress(out)
		}
	}
	out.Whole = len(level) == 0
	return out
}

func replay(cfg SmallConfig, path []move, tell bool) *small {
	s := newSmall(cfg)
	s.tell = tell
	for _, m := range path {
		s.do(m)
	}
	return s
}
