package notify

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Server takes what a service says. Only processes of this user, and root, can
// reach it.
type Server struct {
	conn *net.UnixConn
	hear func(Message)
	done chan struct{}

	mu   sync.Mutex // held from the reading of a datagram until it was heard
	buf  []byte
	oob  []byte
	most int // datagrams that are taken at once
}

// Listen makes the socket and hears until Close. hear is called by one goroutine
// at a time.
func Listen(path string, hear func(Message)) (*Server, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = conn.Close()
		return nil, err
	}
	s := &Server{conn: conn, hear: hear, done: make(chan struct{}),
		most: mostQueued, buf: make([]byte, longest), oob: make([]byte, unix.CmsgSpace(mostFiles*4))}
	go s.read()
	return s, nil
}

const (
	longest   = 4096 // as systemd reads
	mostFiles = 253  // that the kernel lets through with one datagram
	// mostQueued is more than a socket's queue holds (net.unix.max_dgram_qlen is
	// 10, or 512 under systemd).
	mostQueued = 4096
)

func (s *Server) read() {
	defer close(s.done)
	raw, err := s.conn.SyscallConn()
	for err == nil {
		err = raw.Read(func(fd uintptr) bool {
			return !s.drain(int(fd)) // while there is more, it is not waited for
		})
	}
}

// Drain hears what was said before it was called: whoever judges a silence calls
// it first, for its own process may have been frozen meanwhile. It ends even if
// more is said all the time.
func (s *Server) Drain() {
	if raw, err := s.conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { s.drain(int(fd)) })
	}
}

// drain takes what is there, without waiting, and tells whether that was all. A
// file that comes along is closed at once: that is what BARRIER=1 waits for, and
// nothing is kept here.
func (s *Server) drain(fd int) (all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.most {
		n, oobn, flags, _, err := unix.Recvmsg(fd, s.buf, s.oob, unix.MSG_DONTWAIT|recvFlags)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return true
		}
		files := filesIn(s.oob[:oobn])
		if flags&unix.MSG_TRUNC == 0 {
			s.hear(parse(s.buf[:n]))
		}
		for _, f := range files { // after what came before them was heard
			_ = syscall.Close(f)
		}
	}
	return false
}

func filesIn(oob []byte) (files []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			files = append(files, fds...)
		}
	}
	return files
}

// Close ends the hearing. The socket is gone.
func (s *Server) Close() {
	_ = s.conn.Close()
	<-s.done
}
