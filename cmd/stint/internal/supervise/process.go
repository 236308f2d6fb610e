package supervise

import "fmt"

// Process is a descendant of the command.
type Process struct {
	Pid    int
	Parent int
	Group  int
	Name   string // as the kernel keeps it: at most 15 bytes
	origin        // what tells it from another of the same number
}

func (p Process) String() string { return fmt.Sprintf("%d (%s)", p.Pid, p.Name) }
