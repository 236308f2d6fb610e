package etcdcluster

import (
	"net"
	"sync"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Direction is a way that bytes take over a Link.
type Direction int

// The directions of a Link.
const (
	Out  Direction = iota // from the end that dialled
	Back                  // to the end that dialled
)

// Link is a way for connections whose bytes can be held up. Bytes of a direction
// that is cut are kept, as TCP would repeat them, and arrive when it is opened
// again. It is safe for concurrent use.
type Link struct {
	mu      sync.Mutex
	cut     [2]bool
	delay   [2]time.Duration
	changed chan struct{} // closed and replaced when a setting changes
	pairs   map[*pair]struct{}
	ended   bool
}

func newLink() *Link {
	return &Link{changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
}

func (l *Link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Cut stops the bytes of the directions; without any, of both.
func (l *Link) Cut(directions ...Direction) {
	l.set(func() {
		for _, d := range orBoth(directions) {
			l.cut[d] = true
		}
	})
}

// Open lets the bytes of the directions go on, without any of both, those first
// that were held back.
func (l *Link) Open(directions ...Direction) {
	l.set(func() {
		for _, d := range orBoth(directions) {
			l.cut[d] = false
		}
	})
}

// Delay makes each byte of the directions arrive later by d; without any, of
// both.
func (l *Link) Delay(d time.Duration, directions ...Direction) {
	l.set(func() {
		for _, way := range orBoth(directions) {
			l.delay[way] = d
		}
	})
}

// Reset closes the connections that there are; new ones are served as before.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.close()
	}
}

// end closes the connections that there are and those to come.
func (l *Link) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.Reset()
}

func orBoth(d []Direction) []Direction {
	if len(d) == 0 {
		return []Direction{Out, Back}
	}
	return d
}

// pass returns when a byte that came at the given instant may go on, or false
// when the connection is closed.
func (l *Link) pass(d Direction, came authority.Instant, closed <-chan struct{}) bool {
	for {
		l.mu.Lock()
		cut, left, changed := l.cut[d], came.Add(l.delay[d]).Sub(authority.BootClock{}.Now()), l.changed
		l.mu.Unlock()
		if !cut && left <= 0 {
			return true
		}
		if cut {
			left = time.Hour
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-changed:
		case <-closed:
			t.Stop()
			return false
		}
		t.Stop()
	}
}

// pair is a connection through a Link: the end that was accepted and the end
// that was dialled for it.
type pair struct {
	near, far net.Conn
	once      sync.Once
	closed    chan struct{}
}

func (p *pair) close() {
	p.once.Do(func() {
		close(p.closed)
		p.near.Close()
		p.far.Close()
	})
}

// serve carries bytes both ways until both have ended.
func (l *Link) serve(near, far net.Conn) {
	p := &pair{near: near, far: far, closed: make(chan struct{})}
	l.mu.Lock()
	l.pairs[p] = struct{}{}
	ended := l.ended
	l.mu.Unlock()
	if ended {
		p.close()
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(p, far, near, Out) })
	both.Go(func() { l.carry(p, near, far, Back) })
	both.Wait()
	p.close()
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
}

type chunk struct {
	data []byte // nil: the sender has closed
	came authority.Instant
}

// carry copies one direction. What was read waits in line, so that a delay makes
// bytes late and the link no slower.
func (l *Link) carry(p *pair, to, from net.Conn, d Direction) {
	line := make(chan chunk, 256)
	go p.read(from, line)
	for c := range line {
		if !l.pass(d, c.came, p.closed) {
			break
		}
		if c.data == nil {
			if half, ok := to.(*net.TCPConn); ok {
				half.CloseWrite()
			}
			break
		}
		if _, err := to.Write(c.data); err != nil {
			p.close()
			break
		}
	}
	for range line { // until the reader has ended: the connection is closed, or was closed by its sender
	}
}

// read puts what comes in line, and the end behind it: an end, and a reset too,
// travels as bytes do, and whoever is cut off does not learn of it.
func (p *pair) read(from net.Conn, line chan<- chunk) {
	defer close(line)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		now := authority.BootClock{}.Now()
		if n > 0 && !p.put(line, chunk{buf[:n], now}) {
			return
		}
		if err != nil {
			p.put(line, chunk{nil, now})
			return
		}
	}
}

func (p *pair) put(line chan<- chunk, c chunk) bool {
	select {
	case line <- c:
		return true
	case <-p.closed:
		return false
	}
}
