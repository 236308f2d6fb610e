package supervise

// Remote is a running command as a process sees it that did not start it: the
// guard process, when the one that did was killed or is frozen. It goes by what
// the command's parent has told (Hint) and by what the command's processes carry
// with them. One goroutine uses it.
type Remote struct {
	mark string // a word in the variable markVar of everything that the command started
	hint Hint
	seen map[int]uint64 // those that were once found to be the command's, by number and start
}

// markVar holds the grants of all runs around a process, each unique.
const markVar = "STINT_OUTER"

// Hint is what a command's parent knows of it. The JSON is between two
// processes of one binary.
type Hint struct {
	Pid    int         `json:"pid,omitempty"`
	Start  uint64      `json:"start,omitempty"`  // of Pid, as the kernel counts
	Cgroup string      `json:"cgroup,omitempty"` // the folder of its own, if it has one
	Strays [][2]uint64 `json:"strays,omitempty"` // number and start of those who left the group
}

// NewRemote knows the command's processes by the mark alone, until it is told
// more.
func NewRemote(mark string) *Remote { return &Remote{mark: mark, seen: map[int]uint64{}} }

// Told replaces the hint.
func (r *Remote) Told(h Hint) { r.hint = h }

// mostStrays bounds a hint. The mark finds the others.
const mostStrays = 100
