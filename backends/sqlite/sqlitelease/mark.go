package sqlitelease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// The mark is a small file beside the leases, with the highest token that was
// handed out. It is written after each commit, so it is never ahead of the
// counter in the file, unless the file was set back: restored in place, into
// the same inode, where nothing else would show it. It needs no fsync: after a
// power failure it may be behind, which only makes it less strict. Beside
// an old mark no file is made anew but by Bump, which goes on counting from it.
//
// A file that has two names (a hard link, or a container into which only the
// file was mounted) would have a -wal and a -shm for each, and two holders. But
// it also has a mark for each: the file knows the inode of its own.
type mark struct {
	f     *os.File // nil: there is none, it reads as zero
	dev   int64
	inode int64
}

func markPath(path string) string { return path + "-mark" }

// openMark opens the mark of path. Without create, a missing one is no error.
func openMark(path string, create bool) (mark, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(markPath(path), flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	st, err := f.Stat()
	if err == nil {
		var i inode
		if i, _, err = inodeIn(st); err == nil {
			return mark{f, i.dev, i.ino}, nil
		}
	}
	_ = f.Close() // nothing was written
	return mark{}, err
}

func (m mark) close() { _ = m.f.Close() } // nothing is buffered

// read returns the mark. What cannot be read is no mark, as if it were missing.
func (m mark) read() int64 {
	b := make([]byte, markWidth)
	if _, err := m.f.ReadAt(b, 0); err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

const markWidth = 17 // 2^53 has 16 digits

// raise sets the mark to t. Two processes may raise it in the wrong order;
// then it is behind until the next grant.
func (m mark) raise(t int64) {
	if t > m.read() {
		// Fixed width, one write: never half of two numbers. Without it (a full
		// disk) the mark is behind.
		_, _ = m.f.WriteAt(fmt.Appendf(nil, "%*d\n", markWidth-1, t), 0)
	}
}

// leftMark is the mark of a leases file that is gone, zero without one. One that
// does not read as a number is an error: whoever counts from zero then repeats
// tokens.
func leftMark(path string) (int64, error) {
	b, err := os.ReadFile(markPath(path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	if err != nil || n < 0 {
		return 0, broken(fmt.Errorf("%s does not say how many tokens were handed out; nothing was changed: move it away if no holder of the old file is left, and no fence knows its tokens", markPath(path)))
	}
	return n, nil
}

// setBack refuses a file whose counter is behind its mark.
func (a *Authority) setBack(counter, mark int64) error {
	return broken(fmt.Errorf("sqlitelease: %s was set back (restored from a backup?): it has handed out %d tokens, the mark beside it says %d, so tokens would be handed out again and fences would mix up their holders. "+
		"Nothing was changed; raise the counter: stint bump --authority %s", a.path, counter, mark, urlOf(a.path)))
}
