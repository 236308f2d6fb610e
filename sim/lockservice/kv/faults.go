package kv

import (
	"time"

	"github.com/stint-dev/stint/sim/world"
)

// keepForEver is a gateway's own keep-alive of a client's lease: it says that the
// gateway lives.
func (s *Server) keepForEver(id int) {
	l := s.lease(id)
	if l == nil {
		return
	}
	s.m.Mono.After(l.length/3, func() {
		if s.keepAlive(id) {
			s.keepForEver(id)
		}
	})
}

// Hold makes the next create hang on its way here, or the next answer to a
// keep-alive on its way back.
func (s *Server) Hold(what string, d time.Duration) { s.holds[what] = d }

func (s *Server) late(what string, f func()) {
	d := s.holds[what]
	if d == 0 {
		f()
		return
	}
	delete(s.holds, what)
	s.log(world.Event{What: "held-up", Name: what, Until: s.w.Now() + d})
	s.m.Mono.After(d, f)
}

// Break deletes a key by hand, whoever holds it.
func (s *Server) Break(name string) { s.delete(name, 0, "", "by hand") }
