// Package notify tells systemd how a service does, by the datagram that
// sd_notify(3) describes.
package notify

import (
	"net"
	"os"
	"strings"
)

// Send sends lines like READY=1. Without a NOTIFY_SOCKET nobody wants to know;
// what goes wrong is nothing that the service could do anything about.
func Send(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if strings.HasPrefix(path, "@") {
		path = "\x00" + path[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte(state))
}
