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
