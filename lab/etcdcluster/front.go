package etcdcluster

import (
	"net"
	"sync"
)

// front listens on loopback in place of a member, and passes each connection on
// to where the member listens now, over the link that pick names.
type front struct {
	listener net.Listener
	links    []*Link
	pick     func(net.Conn) *Link // one of links, or nil
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string // empty: the member is down, connections are refused
}

func newFront(links []*Link, pick func(net.Conn) *Link) (*front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{listener: l, links: links, pick: pick}
	f.wg.Go(f.accept)
	return f, nil
}

func (f *front) address() string { return f.listener.Addr().String() }

func (f *front) aim(target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.target = target
}

func (f *front) accept() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.wg.Go(func() { f.pass(near) })
	}
}

func (f *front) pass(near net.Conn) {
	link := f.pick(near)
	f.mu.Lock()
	target := f.target
	f.mu.Unlock()
	if link == nil || target == "" {
		near.Close()
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		near.Close()
		return
	}
	link.serve(near, far)
}

// close ends every connection and waits for its goroutines.
func (f *front) close() {
	f.listener.Close()
	for _, l := range f.links {
		l.end()
	}
	f.wg.Wait()
}
