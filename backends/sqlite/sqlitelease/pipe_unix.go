//go:build linux || darwin

package sqlitelease

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makePipe makes a named pipe and opens it. Opened for both ways, it never
// reads an end of file, and it ends with its process.
func makePipe(path string, mode os.FileMode) (*os.File, error) {
	if err := unix.Mkfifo(path, uint32(mode.Perm())); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = os.Remove(path) // of no use to anybody
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ring writes one byte into a process's pipe. It reports whether that process
// is surely dead: the pipe is there and nobody has it open.
func ring(path string) (dead bool) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.Is(err, unix.ENXIO)
	}
	defer unix.Close(fd)
	_, _ = unix.Write(fd, []byte{1}) // full: it has enough to look at
	return false
}
