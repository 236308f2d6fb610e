package supervise

import (
	"syscall"
	"time"
)

// others are the processes below this one that do not come from the command: a
// shell that started jobs and then exec'ed stint has left them to it. What they
// leave behind falls to the subreaper as the command's own orphans do; it is
// told from those by its process group, or because its parent was seen.
//
// An orphan that is neither is taken for the command's: to keep a lease for too
// long does less harm than to give it away while the command works. Such a one
// left the group of its job, and lost its parent between two looks.
//
// To process 1 of a container fall also the orphans of what was brought in from
// outside (docker exec), whose parents it does not see.
type others struct {
	self   int            // this process
	there  bool           // there have been any, or there may be: then they are looked for
	start  map[int]uint64 // of each by its number: together they name one process
	groups map[int]bool   // theirs, and this process's own: the command has left it
}

// lookEvery is the time between two looks while there are others.
const lookEvery = 50 * time.Millisecond

// findOthers is called before the command is started: all that is there is
// another's. own is the group of self.
func findOthers(all []Process, self, own int) others {
	children := byParent(all)
	o := others{self: self, start: map[int]uint64{}, groups: map[int]bool{own: true}}
	o.there = self == 1 || len(children[self]) > 0
	o.addBelow(children, self, 0)
	return o
}

func (o *others) has(p Process) bool {
	start, ok := o.start[p.Pid]
	return ok && start == p.start
}

// follow adds what the others have started, and forgets what has ended, whose
// numbers may be used again.
func (o *others) follow(all []Process, leader int) {
	if !o.there {
		return
	}
	kept := map[int]uint64{}
	for _, p := range all {
		if o.has(p) {
			kept[p.Pid] = p.start
		}
	}
	o.start = kept
	for g := range o.groups { // not from the list: it is older than a child forked meanwhile
		if g > 1 && syscall.Kill(-g, 0) == syscall.ESRCH {
			delete(o.groups, g)
		}
	}
	children := byParent(all)
	for _, p := range children[o.self] {
		if p.Pid != leader && (o.has(p) || o.groups[p.Group]) {
			o.add(p)
			o.addBelow(children, p.Pid, leader)
		}
	}
	if o.self == 1 { // what has no parent here came from outside
		o.addBelow(children, 0, o.self)
	}
}

// addBelow adds what is below parent, apart from one process and what is below it.
func (o *others) addBelow(children map[int][]Process, parent, without int) {
	for _, p := range children[parent] {
		if p.Pid != without {
			o.add(p)
			o.addBelow(children, p.Pid, without)
		}
	}
}

func (o *others) add(p Process) {
	o.start[p.Pid] = p.start
	if p.Group > 0 { // 0: a group that lies outside
		o.groups[p.Group] = true
	}
}

// lookAround follows the others for as long as the command lives.
func (c *Child) lookAround() {
	for {
		select {
		case <-c.gone:
			return
		case <-time.After(lookEvery):
		}
		c.mu.Lock()
		c.scope.others.follow(processes(), c.scope.leader)
		c.mu.Unlock()
	}
}
