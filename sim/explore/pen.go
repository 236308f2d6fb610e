package explore

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/world"
)

// penChunks is more than anybody writes under a register's grants.
const penChunks = 64

// pen writes into the table for an observer that holds the item. It asks the
// observer before each write, and believes the answer until the next one.
type pen struct {
	r    *run
	m    *world.Machine
	o    *actor.Observer
	turn int // counts the grants: what an earlier one began is dropped
}

// granted begins to write: raise the fence, and only then the first chunk.
func (p *pen) granted(g fence.Grant) {
	p.turn++
	p.after(p.r.p.RaiseAfter, func() {
		p.r.rows.Raise(p.m, job, g, func(at actor.Progress, err error) {
			if err == nil {
				p.next(g, at)
			}
		})
	})
}

// after is a timer of the present grant's work.
func (p *pen) after(d time.Duration, f func()) {
	turn := p.turn
	p.m.Mono.After(d, func() {
		if p.turn == turn {
			f()
		}
	})
}

func (p *pen) next(g fence.Grant, at actor.Progress) {
	if at.Next == 0 || p.o.Grant().Grant != g || !p.o.CheckNow() {
		return
	}
	p.after(p.r.p.Build, func() {
		w := actor.Write{Name: job, Grant: g, Chunk: at.Next, Seq: at.Seq, Mark: fmt.Sprintf("%s/%d", g, at.Next)}
		p.r.rows.Write(p.m, w, func(at actor.Progress, err error) {
			if err == nil {
				p.after(p.r.p.Pace, func() { p.next(g, at) })
			}
		})
	})
}
