// Package notify speaks the protocol of sd_notify(3): datagrams by which a
// service tells its manager how it does. Stint is on both ends: a service of
// systemd, and the manager of its command.
package notify

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNobody: there is no NOTIFY_SOCKET, so nobody wants to know.
var ErrNobody = errors.New("NOTIFY_SOCKET is not set")

// Send sends lines like READY=1. Without a NOTIFY_SOCKET nobody wants to know;
// what goes wrong is nothing that the service could do anything about.
func Send(state string) { _ = Try(state) }

// Try is Send for those who can do something about a failure.
func Try(state string) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(patience)) // the socket's queue may be full
	_, err = c.Write([]byte(state))
	return err
}

// Deliver is Try, and waits until the manager has read it, for two seconds at most:
// systemd asks the kernel whose word it is, and hears nobody who has ended since.
// See sd_notify_barrier(3).
func Deliver(state string) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.Close()
	until := time.Now().Add(patience)
	_ = c.SetWriteDeadline(until)
	if _, err := c.Write([]byte(state)); err != nil {
		return err
	}
	barrier(c, until) // if that is not understood, it was sent all the same
	return nil
}

// barrier waits until all that was said before has been read: then the manager
// closes the end of a pipe that it is sent.
func barrier(c *net.UnixConn, until time.Time) {
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close()
	end := unix.UnixRights(int(w.Fd()))
	raw, err := c.SyscallConn()
	if err == nil {
		var sent error
		err = raw.Write(func(fd uintptr) bool {
			sent = unix.Sendmsg(int(fd), []byte("BARRIER=1"), end, nil, 0)
			return sent != unix.EAGAIN && sent != unix.EINTR
		})
		err = errors.Join(err, sent)
	}
	_ = w.Close()
	if err == nil {
		_ = r.SetReadDeadline(until)
		_, _ = r.Read(make([]byte, 1)) // ends when nobody has the other end any more
	}
}

// Offer is Try for those who must not wait for a manager that is busy: then there
// is an error, and nothing was said.
func Offer(state string) error {
	c, err := dial()
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Write(func(fd uintptr) bool {
		_, err = unix.Write(int(fd), []byte(state))
		return true
	})
	return errors.Join(failed, err)
}

func dial() (*net.UnixConn, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, ErrNobody
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:]
	}
	return net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
}

// patience is how long a manager may be busy.
const patience = 2 * time.Second

// Watchdog is how often the manager wants to hear WATCHDOG=1 from this process;
// zero: it does not.
func Watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return micros(os.Getenv("WATCHDOG_USEC"))
}
