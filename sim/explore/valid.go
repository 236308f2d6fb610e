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
	if p.Raft < 0 || p.Raft > 1 || p.Raft == 1 && p.Kind != Billing {
		return fmt.Errorf("raft %d: 0, or 1 in the world %s", p.Raft, Billing)
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
