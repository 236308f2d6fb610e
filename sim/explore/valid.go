package explore

import (
	"fmt"
	"slices"
	"time"
)

// Check says what is wrong with a plan that somebody wrote.
func (p Plan) Check() error {
	if !slices.Contains(Kinds(), p.Kind) {
		return fmt.Errorf("world %q: there are %v", p.Kind, Kinds())
	}
	if p.Workers < 1 || p.Workers > maxWorkers {
		return fmt.Errorf("workers %d: there are 1 to %d", p.Workers, maxWorkers)
	}
	if p.Raft < 0 || p.Raft > 1 || p.Raft == 1 && !p.raftable() {
		return fmt.Errorf("raft %d: 0, or 1 in a world with a lock service that forgets nothing", p.Raft)
	}
	if p.Nodes != 0 && p.Nodes != 3 && p.Nodes != 5 {
		return fmt.Errorf("nodes %d: there are 3 or 5", p.Nodes)
	}
	if p.Torn < 0 || p.Torn > 1 {
		return fmt.Errorf("torn %d: 0 or 1", p.Torn)
	}
	if p.Sweep > 0 && p.Kind != Billing && p.Kind != Forgets {
		return fmt.Errorf("sweep %v: only the claims of a table are swept", p.Sweep)
	}
	if p.Chunks < 1 || p.Chunks > maxChunks {
		return fmt.Errorf("chunks %d: there are 1 to %d", p.Chunks, maxChunks)
	}
	if err := p.Times().Check(); err != nil {
		return err
	}
	for _, s := range p.Settings.table() {
		if s.d != nil && (*s.d < 0 || *s.d > time.Hour) {
			return fmt.Errorf("%s %v: 0 to 1h is allowed", s.name, *s.d)
		}
	}
	for _, f := range p.Faults {
		if err := p.checkFault(f); err != nil {
			return fmt.Errorf("%v: %w", f, err)
		}
	}
	return nil
}

func (p Plan) checkFault(f Fault) error {
	verb, ok := verbs[f.What]
	if !ok {
		return fmt.Errorf("there is no %q", f.What)
	}
	who := p.machines()
	if verb.who != "" {
		who = []string{verb.who}
	}
	if !slices.Contains(who, f.Who) {
		return fmt.Errorf("%s is for %v", f.What, who)
	}
	switch {
	case f.At < 0 || f.For < 0:
		return fmt.Errorf("a time is negative")
	case verb.peer && !slices.Contains(p.machines(), f.Peer):
		return fmt.Errorf("peer is one of %v", p.machines())
	case f.What == "island" && (f.N < 0 || f.N > 2):
		return fmt.Errorf("n is 0: both ways, 1: nothing reaches the lock service, 2: nothing comes from there")
	case f.What == "rate" && (f.N < -maxRate || f.N > maxRate):
		return fmt.Errorf("a rate is at most %d millionths: that is what the margin pays for", maxRate)
	}
	return nil
}

// machines are all machines of the plan's world.
func (p Plan) machines() []string {
	all := append([]string{"store"}, p.names()...)
	if p.Sweep > 0 {
		all = append(all, "S")
	}
	return append(all, p.nodes()...)
}
