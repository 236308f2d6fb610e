package sqlfencetest

import (
	"testing"

	"github.com/stint-dev/stint/fence/fencetest"
)

func TestOneProcessKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			fencetest.Run(t, fencetest.Subject{Open: func(t *testing.T) fencetest.Handle {
				dsn := m.dsn(t)
				other := reopen(t, dsn, nil).suite()
				return fencetest.Handle{Store: fresh(t, dsn, nil).suite(), Peer: &other}
			}})
		})
	}
}

func TestTwoProcessesKeepTheContract(t *testing.T) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			other := startPeer(t)
			fencetest.Run(t, fencetest.Subject{Open: func(t *testing.T) fencetest.Handle {
				dsn := m.dsn(t)
				here := fresh(t, dsn, nil).suite()
				other.open(t, dsn)
				there := other.suite()
				return fencetest.Handle{Store: here, Peer: &there}
			}})
		})
	}
}
