package sqlitelease

import (
	"fmt"
	"os"
)

// host is what deadlines in a file depend on.
type host struct {
	boot   string // differs after every start of the machine
	timens string // processes in another time namespace read another boot clock
}

// inode is where a file lives. A copy lives elsewhere.
type inode struct{ dev, ino int64 }

func inodeOf(path string) (inode, error) {
	i, _, err := inodeAndNames(path)
	return i, err
}

// inodeAndNames also tells how many names (hard links) the file has.
func inodeAndNames(path string) (i inode, names uint64, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return inode{}, 0, err
	}
	return inodeIn(st)
}

func networked(path, kind string) error {
	return fmt.Errorf("sqlitelease: %s is on a %s file system: its processes may be on several hosts, whose clocks and locks do not agree, and two could hold one lease. "+
		"Nothing was changed; put the file on a local disk, or share leases between hosts through a server: stint serve", path, kind)
}
