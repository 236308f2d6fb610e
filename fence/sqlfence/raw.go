package sqlfence

import "database/sql"

// raw is conn.Raw, with sql.ErrConnDone in place of a panic. When a context ends,
// database/sql rolls back on a goroutine of its own and closes the connection if
// that fails; a Raw at the same moment may find the connection not done yet and,
// an instant later, no connection in it. Then there is nothing left to do to it.
func raw(conn *sql.Conn, f func(driverConn any) error) (err error) {
	began := false
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if began { // f's own
			panic(r)
		}
		err = sql.ErrConnDone
	}()
	return conn.Raw(func(dc any) error {
		began = true
		return f(dc)
	})
}
