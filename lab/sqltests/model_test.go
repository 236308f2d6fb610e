package sqltests

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence/fencetest"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
)

// Against fence.Memory and against every database at once (see fencetest.Random).
func TestRandomProgramsGiveTheSameHistoryEverywhere(t *testing.T) {
	t.Parallel()
	var places []place
	for _, g := range databases {
		places = append(places, g.at(t))
	}
	fencetest.Random(t, func(t *rapid.T) (all []fencetest.Side) {
		for i, p := range places {
			s, err := p.beside().side(databases[i].String())
			if err != nil {
				t.Fatalf("%v: %v", databases[i], err)
			}
			all = append(all, s)
		}
		return all
	})
}

// side is a new store, behind a network that loses what it is told to.
func (p place) side(name string) (fencetest.Side, error) {
	if err := p.create(); err != nil {
		return fencetest.Side{}, err
	}
	net := &faultsql.Network{}
	s, err := p.open(net.Hook)
	if err != nil {
		return fencetest.Side{}, err
	}
	p.Settle = time.Millisecond
	hasty, err := p.over(s.db)
	if err != nil {
		return fencetest.Side{}, err
	}
	return fencetest.Side{
		Store: s.suite(), Name: name, Net: net,
		Settle: s.f.Settle, Hasty: hasty.write, Values: s.values, Close: s.db.Close,
	}, nil
}

// values is all data, in the order in which it was written.
func (s *store) values() (all []string, err error) {
	rows, err := s.db.Query(s.q("SELECT v FROM {d} ORDER BY id"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
