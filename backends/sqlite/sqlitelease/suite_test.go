package sqlitelease

import (
	"testing"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/authority/authoritytest"
	"github.com/stint-dev/stint/authority/memlease"
)

func onFakeClock(t *testing.T) authoritytest.Handle {
	path, c := newPath(t), newFakeClock()
	return authoritytest.Handle{
		Authority: openAt(t, path, Options{Clock: c}),
		Peer:      func(t *testing.T) authority.Authority { return openAt(t, path, Options{Clock: c}) },
		Advance:   c.advance,
	}
}

func TestConformanceOnFakeClock(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{NoBulk: true, Open: onFakeClock})
}

func TestConformanceThroughTwoHandles(t *testing.T) {
	authoritytest.Run(t, authoritytest.Subject{NoBulk: true, Open: func(t *testing.T) authoritytest.Handle {
		path := newPath(t)
		return authoritytest.Handle{
			Authority: openAt(t, path, Options{}),
			Peer:      func(t *testing.T) authority.Authority { return openAt(t, path, Options{}) },
		}
	}})
}

func TestTheSameProgramGivesTheSameHistoryAsTheModel(t *testing.T) {
	authoritytest.Random(t, func(*testing.T) authoritytest.Handle {
		c := newFakeClock()
		return authoritytest.Handle{Authority: memlease.New(c), Advance: c.advance}
	}, onFakeClock)
}
