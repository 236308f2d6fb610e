package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// A lifeline is a pipe. Whoever answers for a command holds its writing end; the
// command, and what it starts, inherit the reading end without using it. When the
// last writing end is closed, be it because all who held one were killed, the
// kernel sends KILL to the command's group: no process has to be left for that.
// See F_SETOWN and F_SETSIG in fcntl(2).
//
// The kernel does so for as long as one process has the reading end open. What
// has left the group is not reached.

// lifelineFrom are the least numbers of the reading end in the command: scripts
// number their own files from 3 up, and shells from 10. The second one is for a
// process that may not have so many.
var lifelineFrom = []int{100, 20}

// hand makes the reading end something that the next fork passes on. -1: it
// cannot be passed on, or there is none.
func hand(lifeline *os.File) int {
	fd := -1
	control(lifeline, func(r int) {
		for _, from := range lifelineFrom {
			if n, err := unix.FcntlInt(uintptr(r), unix.F_DUPFD, from); err == nil {
				fd = n
				return
			}
		}
	})
	return fd
}

// tie has the lifeline's end kill a group, which is named by the kernel's own
// handle from here on: nobody else who gets its number is meant. It takes back
// what hand has made; group 0: nothing was started.
func tie(fd, group int) {
	if fd < 0 {
		return
	}
	defer unix.Close(fd)
	if group == 0 {
		return
	}
	for _, set := range [][2]int{{unix.F_SETOWN, -group}, {unix.F_SETSIG, int(unix.SIGKILL)}} {
		if _, err := unix.FcntlInt(uintptr(fd), set[0], set[1]); err != nil {
			return
		}
	}
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_ASYNC)
	}
}

func control(f *os.File, use func(fd int)) {
	if f == nil {
		return
	}
	if c, err := f.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { use(int(fd)) })
	}
}
