package supervise

import (
	"os"
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
// left the group of its job, and lived through its parent's end between two
// looks; or it was brought in from outside, which only happens to process 1 of a
// container (docker exec).
type others struct {
	there  bool           // there have been any: then there may be more
	start  map[int]uint64 // of each by its number: together they name one process
	groups map[int]bool   // theirs, and this process's own: the command has left it
}

// lookEvery is the time between two looks while there are others.
const lookEvery = 50 * time.Millisecond

// findOthers is called before the command is started: all that is there is
// another's.
func findOthers(all []Process) others {
	o := others{}
	if len(byParent(all)[os.Getpid()]) > 0 {
		o = others{true, map[int]uint64{}, map[int]bool{syscall.Getpgrp(): true}}
		o.addBelow(byParent(all), os.Getpid(), 0)
	}
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
		if syscall.Kill(-g, 0) == syscall.ESRCH {
			delete(o.groups, g)
		}
	}
	children := byParent(all)
	for _, p := range children[os.Getpid()] {
		if p.Pid != leader && (o.has(p) || o.groups[p.Group]) {
			o.add(p)
			o.addBelow(children, p.Pid, leader)
		}
	}
}

func (o *others) addBelow(children map[int][]Process, parent, leader int) {
	for _, p := range children[parent] {
		if p.Pid != leader {
			o.add(p)
			o.addBelow(children, p.Pid, leader)
		}
	}
}

func (o *others) add(p Process) {
	o.start[p.Pid] = p.start
	o.groups[p.Group] = true
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
