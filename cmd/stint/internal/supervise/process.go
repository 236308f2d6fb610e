package supervise

import "fmt"

// Process is a descendant of the command.
type Process struct {
	Pid    int
	Parent int
	Group  int
	Name   string // as the kernel keeps it: at most 15 bytes
	zombie bool
	start  uint64 // with Pid it names one process for as long as the host is up
}

func (p Process) String() string { return fmt.Sprintf("%d (%s)", p.Pid, p.Name) }
