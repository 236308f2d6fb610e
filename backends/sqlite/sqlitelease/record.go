package sqlitelease

import (
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
)

// What becomes of a grant; the numbers are in the file.
const (
	granted   = 0
	released  = 1
	inherited = 2 // of another boot, or from a copy: waited out, never renewed
)

// record is a row of leases, with what its line looks like.
type record struct {
	name     string
	grant    fence.Grant // zero: never held
	holder   string
	since    time.Time
	length   time.Duration
	deadline authority.Instant
	state    int64
	waiters  int // alive ones in line
}

const columns = `token, nonce, holder, since, length, deadline, state,
	(SELECT count(*) FROM waiters w JOIN handles h ON h.id = w.handle WHERE w.name = n.name AND h.alive > ?2)`

// lookup reads one name, whether or not it is known.
func (c *conn) lookup(name string) (r record, err error) {
	err = c.each(func(s *sqlite3.Stmt) { r = scan(s, name) },
		`SELECT `+columns+` FROM (SELECT ?1 AS name) n LEFT JOIN leases ON leases.name = n.name`, name, alive())
	return r, err
}

func scan(s *sqlite3.Stmt, name string) record {
	return record{
		name:     name,
		grant:    fence.Grant{Token: fence.Token(s.ColumnInt64(0)), Nonce: s.ColumnText(1)},
		holder:   s.ColumnText(2),
		since:    time.UnixMilli(s.ColumnInt64(3)),
		length:   time.Duration(s.ColumnInt64(4)),
		deadline: authority.Instant(s.ColumnInt64(5)),
		state:    s.ColumnInt64(6),
		waiters:  s.ColumnInt(7),
	}
}

func (r record) held(now authority.Instant) bool {
	return r.grant.Token != 0 && r.state != released && now < r.deadline
}

func (r record) public(now authority.Instant) authority.State {
	s := authority.State{Name: r.name, Grant: r.grant, Holder: r.holder, Length: r.length, Waiters: r.waiters}
	if r.grant.Token != 0 {
		s.Since = r.since
	}
	if r.held(now) {
		s.Held, s.Left = true, r.deadline.Sub(now)
	}
	return s
}

// alive is the instant by which the processes in line are judged. It is always
// the host's clock: it is about processes, not about leases.
func alive() int64 { return int64(authority.BootClock{}.Now()) }
