package sqlfence

import (
	"database/sql"
	"database/sql/driver"
	"reflect"
	"sync/atomic"
)

// guard lets a connection commit nothing but what InTx orders.
//
// A database may roll a whole transaction back by itself (SQLite does for
// INSERT OR ROLLBACK, RAISE(ROLLBACK), an interrupted write, a full disk). What
// a function that went on after that error wrote next would be committed
// statement by statement, without the fence. A commit hook refuses it, where
// the driver offers one.
type guard struct {
	conn  *sql.Conn
	set   bool
	order atomic.Bool // COMMIT is ours
	no    atomic.Bool // something was refused
}

func (g *guard) allow() bool {
	if g.order.Load() {
		return true
	}
	g.no.Store(true)
	return false
}

// close takes effect when the driver has a commit hook, and then takes the
// place of whatever hook the connection had.
func (g *guard) close() error {
	return raw(g.conn, func(dc any) error {
		if set := sqliteCommitHook(dc); set != nil {
			set(g.allow)
			g.set = true
		}
		return nil
	})
}

// open takes the hook away, before the connection goes back to the pool.
func (g *guard) open() error {
	if !g.set {
		return nil
	}
	return raw(g.conn, func(dc any) error {
		sqliteCommitHook(dc)(nil)
		return nil
	})
}

// sqliteCommitHook finds how the driver sets SQLite's commit hook, without an
// import of any: nil where it offers none. Wrappers (for traces, say) are looked
// through if they have Raw() driver.Conn.
func sqliteCommitHook(dc any) func(allow func() bool) {
	for range 8 {
		switch c := dc.(type) {
		case interface{ CommitHook(func() bool) }: // ncruces/go-sqlite3
			return c.CommitHook
		case interface{ RegisterCommitHook(func() int) }: // mattn/go-sqlite3
			return func(allow func() bool) {
				if allow == nil {
					c.RegisterCommitHook(nil)
					return
				}
				c.RegisterCommitHook(func() int { return refuse(allow) })
			}
		}
		if set := namedCommitHook(dc); set != nil {
			return set
		}
		wrapper, ok := dc.(interface{ Raw() driver.Conn })
		if !ok {
			return nil
		}
		dc = wrapper.Raw()
	}
	return nil
}

// namedCommitHook is for modernc.org/sqlite, whose function has a type of its
// own, which no interface written here can name.
func namedCommitHook(dc any) func(allow func() bool) {
	if dc == nil {
		return nil
	}
	m := reflect.ValueOf(dc).MethodByName("RegisterCommitHook")
	if !m.IsValid() || m.Type().NumIn() != 1 || m.Type().NumOut() != 0 {
		return nil
	}
	hook := m.Type().In(0)
	if !reflect.TypeFor[func() int32]().ConvertibleTo(hook) {
		return nil
	}
	return func(allow func() bool) {
		v := reflect.Zero(hook)
		if allow != nil {
			v = reflect.ValueOf(func() int32 { return int32(refuse(allow)) }).Convert(hook)
		}
		m.Call([]reflect.Value{v})
	}
}

// refuse is what SQLite itself asks of a commit hook: not zero rolls back.
func refuse(allow func() bool) int {
	if allow() {
		return 0
	}
	return 1
}
