package sqltests

import (
	"testing"

	"github.com/stint-dev/stint/fence/fencetest"
)

func TestConformance(t *testing.T) {
	each(t, everywhere(), func(t *testing.T, g target) {
		p := g.at(t)
		here, there := p.fresh(t, nil), p.reopen(t, nil)
		fencetest.Run(t, fencetest.Subject{Open: func(t *testing.T) fencetest.Handle {
			here.clear(t)
			peer := there.suite()
			return fencetest.Handle{Store: here.suite(), Peer: &peer}
		}})
	})
}

func everywhere() []target { return append(append([]target{}, databases...), ways...) }

// clear makes the tables as new.
func (s *store) clear(t *testing.T) {
	t.Helper()
	for _, st := range []string{
		"DELETE FROM " + s.Fence, "UPDATE " + s.Fence + "_meta SET v = 0 WHERE k <> 'version'", "DELETE FROM " + s.Data,
	} {
		if _, err := s.db.ExecContext(background(t), st); err != nil {
			t.Fatal(st, err)
		}
	}
}
