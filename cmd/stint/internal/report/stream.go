package report

import (
	"io"
	"sync"
	"time"
)

// stream writes texts in their order, on a goroutine of its own while there is
// anything to write: who sends does not hang on who reads.
type stream struct {
	w        io.Writer
	patience time.Duration // of wait; zero: as long as it takes

	mu      sync.Mutex
	pending []byte
	written chan struct{}   // closed when nothing is pending any more; nil: nothing is
	stalled <-chan struct{} // what a wait was given up on
}

// mostPending bounds what is kept for a reader that stalls; the rest is left out.
const mostPending = 64 << 10

var nothing = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// send hands over a text. What it returns is closed when all is written.
func (s *stream) send(text string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pending)+len(text) <= mostPending {
		s.pending = append(s.pending, text...)
	}
	if s.written == nil {
		if len(s.pending) == 0 {
			return nothing
		}
		s.written = make(chan struct{})
		go s.drain()
	}
	return s.written
}

func (s *stream) drain() {
	for {
		s.mu.Lock()
		text := s.pending
		s.pending = nil
		if len(text) == 0 {
			close(s.written)
			s.written = nil
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		_, _ = s.w.Write(text) // there is nobody to tell
	}
}

// wait waits until all is written, for patience, and once only for one stall.
func (s *stream) wait(written <-chan struct{}) {
	if s.patience == 0 {
		<-written
		return
	}
	s.mu.Lock()
	stalled := s.stalled == written
	s.mu.Unlock()
	if stalled {
		return
	}
	t := time.NewTimer(s.patience)
	defer t.Stop()
	select {
	case <-written:
	case <-t.C:
		s.mu.Lock()
		s.stalled = written
		s.mu.Unlock()
	}
}
