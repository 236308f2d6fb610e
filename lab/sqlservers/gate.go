package sqlservers

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/stint-dev/stint/internal/sqlnode"
)

// Cut is what a Gate does to the next COMMIT that comes by.
type Cut int

const (
	Pass        Cut = iota // nothing
	BeforeIt               // the connection breaks, and the server never sees it
	BeforeReply            // the server has done it, and its answer is lost
	HeldBack               // the client's connection breaks, and the COMMIT arrives at Deliver
)

// Gate is a way to a server that understands as much of the protocol as it takes
// to know a COMMIT when it comes by.
type Gate struct {
	server *Server
	l      net.Listener
	all    sync.WaitGroup

	mu      sync.Mutex
	next    Cut
	stay    bool // nobody gets through after the cut, until Open
	shut    bool
	cuts    int
	conns   map[net.Conn]bool
	deliver chan struct{} // closed by Deliver
	closed  bool
}

// Gate opens a gate, which stays until the test ends.
func (s *Server) Gate(t TB) *Gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{server: s, l: l, conns: map[net.Conn]bool{}, deliver: make(chan struct{})}
	g.all.Go(g.accept)
	t.Cleanup(g.close)
	return g
}

// Addr is host:port.
func (g *Gate) Addr() string { return g.l.Addr().String() }

// CutNext cuts at the next COMMIT. With stay, nobody gets through afterwards.
func (g *Gate) CutNext(c Cut, stay bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.stay = c, stay
	g.deliver = make(chan struct{})
}

// Cuts is how many COMMITs have met with a cut.
func (g *Gate) Cuts() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cuts
}

// Open lets everybody through again.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.stay, g.shut = Pass, false, false
}

// Shut breaks all connections and lets nobody through, until Open.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.conns {
		c.Close()
	}
}

// Deliver lets the COMMIT that was held back arrive.
func (g *Gate) Deliver() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.deliver:
	default:
		close(g.deliver)
	}
}

func (g *Gate) close() {
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		c.Close()
	}
	g.mu.Unlock()
	g.Deliver()
	g.l.Close()
	g.all.Wait()
}

func (g *Gate) accept() {
	for {
		c, err := g.l.Accept()
		if err != nil {
			return
		}
		g.all.Go(func() { g.serve(c) })
	}
}

// serve carries one connection.
func (g *Gate) serve(client net.Conn) {
	defer client.Close()
	if !g.enter(client) {
		return
	}
	defer g.leave(client)
	var d net.Dialer
	server, err := d.DialContext(context.Background(), "tcp", g.server.Addr())
	if err != nil {
		return
	}
	defer server.Close()
	g.enter(server)
	defer g.leave(server)
	s := &stream{gate: g, client: client, server: server, answered: make(chan struct{})}
	var back sync.WaitGroup
	back.Go(s.answers)
	s.requests()
	server.Close()
	back.Wait()
}

func (g *Gate) enter(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || g.closed {
		return false
	}
	g.conns[c] = true
	return true
}

func (g *Gate) leave(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// take is asked at each COMMIT what becomes of it.
func (g *Gate) take(s *stream) (Cut, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.next
	if c == Pass {
		return c, nil
	}
	g.next, g.shut = Pass, g.stay
	g.cuts++
	for other := range g.conns {
		if g.stay && other != s.client && other != s.server {
			other.Close()
		}
	}
	return c, g.deliver
}

// stream is one connection through a gate.
type stream struct {
	gate           *Gate
	client, server net.Conn

	mu       sync.Mutex
	muted    bool          // the client hears nothing any more
	answered chan struct{} // closed at the first answer after mute
	once     sync.Once
}

// answers carries what the server says.
func (s *stream) answers() {
	defer s.client.Close()
	defer s.once.Do(func() { close(s.answered) })
	buf := make([]byte, 16<<10)
	for {
		n, err := s.server.Read(buf)
		if n > 0 && s.heard() {
			if _, err := s.client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) heard() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.muted {
		s.once.Do(func() { close(s.answered) })
	}
	return !s.muted
}

func (s *stream) mute() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.muted = true
}

// requests carries what the client says, message by message.
func (s *stream) requests() {
	next := postgresMessage()
	if s.gate.server.Kind == sqlnode.MariaDB {
		next = mysqlMessage
	}
	for {
		m, commit, err := next(s.client)
		if err != nil {
			return
		}
		if !commit {
			if _, err := s.server.Write(m); err != nil {
				return
			}
			continue
		}
		switch cut, deliver := s.gate.take(s); cut {
		case BeforeIt:
			return
		case BeforeReply:
			s.mute()
			if _, err := s.server.Write(m); err == nil {
				<-s.answered
			}
			return
		case HeldBack:
			s.client.Close()
			<-deliver
			s.mute() // so that it counts as answered when something comes now
			if _, err := s.server.Write(m); err == nil {
				<-s.answered
			}
			return
		default:
			if _, err := s.server.Write(m); err != nil {
				return
			}
		}
	}
}

var errTooLong = errors.New("a message of no sensible length")

// message reads one message whose header has been read; size is that of its
// body.
func message(r io.Reader, header []byte, size int) ([]byte, error) {
	if size < 0 || size > 1<<28 {
		return nil, errTooLong
	}
	m := make([]byte, len(header)+size)
	copy(m, header)
	_, err := io.ReadFull(r, m[len(header):])
	return m, err
}
