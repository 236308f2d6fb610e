package actor

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// Shelf is a resource of pages on a machine.
type Shelf struct {
	stage *Stage
	m     *world.Machine
	*store.Pages
	Name string
}

// NewShelf puts pages on a machine.
func NewShelf(s *Stage, m *world.Machine, name string, p *store.Pages) *Shelf {
	return &Shelf{stage: s, m: m, Pages: p, Name: name}
}

// do carries out one request, and logs what came of it.
func (s *Shelf) do(from *world.Machine, what string, t fence.Token, f func() (int, error), reply func(version int, err error)) {
	heard := false
	s.stage.World.Net.Call(from, s.m, func(answer func(func())) {
		version, err := f()
		writers, readers := s.Marks()
		e := world.Event{What: what, Name: s.Name, Token: uint64(t), Fence: uint64(writers), Count: version}
		if err != nil {
			e.What, e.Mark, e.Count = what+"-refused", "refused", 0
			e.Why = fmt.Sprintf("the marks are %d for writers, %d for readers", writers, readers)
		}
		s.stage.log(from, e)
		answer(func() {
			if !heard {
				heard = true
				reply(version, err)
			}
		})
	})
}

// BookConfig is how somebody goes about the pages, by its own clock.
type BookConfig struct {
	Key        string        // of its lease: readers have one each
	Writes     bool          // or reads
	RaiseAfter time.Duration // from the grant
	Every      time.Duration // from one page to the next
	Send       time.Duration // from the check of the lease to the resource
	Pages      int           // then it has read them all; a writer goes on
}

// Book is a reader or a writer of the pages. Which of them may be let in at once
// is up to the lock service; each has a lease of its own.
type Book struct {
	stage *Stage
	m     *world.Machine
	shelf *Shelf
	cfg   BookConfig
	h     *Holder
	token fence.Token
	first int // version of the first page
	n     int

	// Torn says that it has read two versions, Finished that it has read all.
	Torn, Finished bool
}

// NewBook makes a reader or a writer that waits for Start.
func NewBook(s *Stage, m *world.Machine, shelf *Shelf, cfg BookConfig) *Book {
	return &Book{stage: s, m: m, shelf: shelf, cfg: cfg}
}

// Start begins to wait for the lease.
func (b *Book) Start() {
	b.h = NewHolder(b.stage, b.m, protocol.Config{Name: b.cfg.Key, Prefix: b.m.Name, Times: b.stage.Times, Wait: true})
	b.h.OnGranted = func(g authority.Grant) {
		b.token = g.Token
		b.m.Mono.After(b.cfg.RaiseAfter, b.raise)
	}
	b.h.Start()
}

func (b *Book) raise() {
	what, raise := "raised-to-read", b.shelf.RaiseToRead
	if b.cfg.Writes {
		what, raise = "raised-to-write", b.shelf.RaiseToWrite
	}
	b.shelf.do(b.m, what, b.token, func() (int, error) { return 0, raise(b.token) }, func(_ int, err error) {
		if err != nil {
			b.close("the resource refused it")
			return
		}
		b.next()
	})
}

// next is one page: the check of the lease, and some time later the request.
func (b *Book) next() {
	if !b.h.Holding() {
		b.close("its own check says that the lease is over")
		return
	}
	what, f := "page-read", b.shelf.Read
	if b.cfg.Writes {
		what, f = "page-written", b.shelf.Write
	}
	b.m.Mono.After(b.cfg.Send, func() {
		b.shelf.do(b.m, what, b.token, func() (int, error) { return f(b.token) }, b.answered)
	})
}

func (b *Book) answered(version int, err error) {
	if err != nil {
		b.close("the resource refused it")
		return
	}
	b.n++
	if b.first == 0 {
		b.first = version
	}
	if !b.cfg.Writes && version != b.first && !b.Torn {
		b.Torn = true
		b.stage.log(b.m, world.Event{What: "torn", Name: b.shelf.Name, Token: uint64(b.token), Count: version, Mark: "torn", Why: fmt.Sprintf("the first page was of version %d, this one is of %d", b.first, version)})
	}
	if !b.cfg.Writes && b.n >= b.cfg.Pages {
		b.Finished = true
		b.close("it has read all pages")
		return
	}
	b.m.Mono.After(b.cfg.Every, b.next)
}

func (b *Book) close(why string) {
	b.stage.log(b.m, world.Event{What: "lets-go", Name: b.cfg.Key, Token: uint64(b.token), Why: why})
	b.h.Cancel(errors.New(why))
	b.h.Release()
}
