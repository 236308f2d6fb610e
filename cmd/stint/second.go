package main

import (
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/warden"
)

// The guard process is the second stint beside the command: it ends the command
// when this one is killed, or frozen over the stop time.

// replaceEvery is the least time between two guard processes.
const replaceEvery = 500 * time.Millisecond

// startSecond starts it, before the command.
func (g *guard) startSecond(l *stint.Lease) (err error) {
	g.second, err = warden.Start(warden.Orders{
		Name: g.s.name, Mark: l.Grant().String(), JSON: g.s.out.JSON,
		Grace: g.s.grace, Lead: g.schedule.Lead, Stop: l.Status().Stop,
	})
	if err != nil {
		return &report.Problem{Code: report.ExitService, Err: err, Data: "the command was not started",
			Do: "check the limits of processes and of memory (ulimit -a)"}
	}
	return nil
}

// tellSecond passes on what change sets, and which processes are the command's by
// now. A guard process that does not read is replaced.
func (g *guard) tellSecond(change func(*warden.Orders)) {
	hint := g.child.Hint()
	if g.second.Tell(func(o *warden.Orders) { o.Hint = &hint; change(o) }) != nil {
		g.replaceSecond()
	}
}

// replaceSecond starts another guard process in place of one that is dead or
// frozen, but not in a circle.
func (g *guard) replaceSecond() {
	now := g.clock.Now()
	if g.killed || g.replaced != 0 && now.Sub(g.replaced) < replaceEvery {
		return // check tells it again soon, and so comes here again
	}
	g.replaced = now
	if err := g.child.Replace(g.second.Renew); err != nil {
		g.s.out.Soon("%v: if this stint is killed now, nobody ends the command", err)
		return
	}
	g.s.out.Soon("the guard process had ended; there is another")
}
