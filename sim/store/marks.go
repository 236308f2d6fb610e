package store

import (
	"fmt"

	"github.com/stint-dev/stint/fence"
)

// Marking is how a resource that is read and written keeps its fence.
type Marking string

const (
	TwoMarks Marking = "two"  // readers raise the writers' mark, writers raise both
	OneMark  Marking = "one"  // everybody raises the same one
	NoMark   Marking = "none" // readers raise nothing
)

// Pages is a resource that several may read at once, or one write. Its pages
// belong together: a reader that sees two versions has seen a state that never
// was.
type Pages struct {
	marking Marking
	writers fence.Token // who writes has at least this
	readers fence.Token // who reads has at least this
	version int
}

// NewPages makes a resource at version 1.
func NewPages(m Marking) *Pages { return &Pages{marking: m, version: 1} }

// Marks are the writers' and the readers' marks.
func (p *Pages) Marks() (writers, readers fence.Token) { return p.writers, p.readers }

// RaiseToRead lets a reader in, and shuts out the writers before it.
func (p *Pages) RaiseToRead(t fence.Token) error {
	if t < p.readers {
		return staleMark("read", t, p.readers)
	}
	switch p.marking {
	case TwoMarks:
		p.writers = max(p.writers, t)
	case OneMark:
		p.writers, p.readers = max(p.writers, t), t
	}
	return nil
}

// RaiseToWrite lets a writer in, and shuts out everybody before it.
func (p *Pages) RaiseToWrite(t fence.Token) error {
	if t < p.writers {
		return staleMark("write", t, p.writers)
	}
	p.writers, p.readers = t, max(p.readers, t)
	return nil
}

// Read is the version of a page.
func (p *Pages) Read(t fence.Token) (int, error) {
	if t < p.readers {
		return 0, staleMark("read", t, p.readers)
	}
	return p.version, nil
}

// Write writes a new version.
func (p *Pages) Write(t fence.Token) (int, error) {
	if t < p.writers {
		return p.version, staleMark("write", t, p.writers)
	}
	p.version++
	return p.version, nil
}

func staleMark(what string, t, mark fence.Token) error {
	return fmt.Errorf("%w: to %s, token %d is below the mark %d", fence.ErrStale, what, t, mark)
}
