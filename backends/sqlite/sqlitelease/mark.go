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
// power failure it may be behind, which only makes it less strict. A file that
// is made anew beside an old mark goes on counting from there.
type mark struct{ f *os.File }

func markPath(path string) string { return path + "-mark" }

func openMark(path string) (mark, error) {
	f, err := os.OpenFile(markPath(path), os.O_RDWR|os.O_CREATE, 0o600)
	return mark{f}, err
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

// leftMark is the mark of a leases file that is gone, zero without one.
func leftMark(path string) (int64, error) {
	f, err := os.Open(markPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return mark{f}.read(), nil
}

// setBack refuses a file whose counter is behind its mark.
func (a *Authority) setBack(counter, mark int64) error {
	return fmt.Errorf("sqlitelease: %s was set back (restored from a backup?): it has handed out %d tokens, the mark beside it says %d, so tokens would be handed out again and fences would mix up their holders. "+
		"Nothing was changed; raise the counter: stint bump --authority %s", a.path, counter, mark, a.url())
}
