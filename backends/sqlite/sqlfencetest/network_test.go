package sqlfencetest

import (
	"testing"
	"time"

	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// faulty is a store behind a network, and one that has a way of its own.
func faulty(t testing.TB, m mode, settle time.Duration) (s, clean *store, n *faultsql.Network) {
	t.Helper()
	dsn := m.dsn(t)
	n = &faultsql.Network{}
	clean = fresh(t, dsn, nil)
	s = reopen(t, dsn, n.Hook)
	s.db.SetMaxOpenConns(1) // settling needs no second connection beside the first
	f, err := sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite, Settle: settle})
	must(t, err)
	s.f = f
	return s, clean, n
}

// mend ends an outage, and lets settling take its time again.
func mend(t testing.TB, n *faultsql.Network, s *store) {
	t.Helper()
	n.Heal()
	f, err := sqlfence.New(s.db, sqlfence.Options{Dialect: sqlfence.SQLite})
	must(t, err)
	s.f = f
}
