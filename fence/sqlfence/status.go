package sqlfence

import (
	"database/sql"
	"database/sql/driver"
	"reflect"
)

// What PostgreSQL says with each answer about the connection's transaction.
const (
	inTransaction = 'T'
	failed        = 'E'
	noTransaction = 'I'
)

// status is what the connection knows of its transaction, without a request: a
// driver that does not tell is believed to be in one. database/sql sees neither
// a ROLLBACK that was sent as a statement, nor that PostgreSQL will answer COMMIT
// with a rollback.
func status(conn *sql.Conn) (state byte) {
	state = inTransaction
	_ = raw(conn, func(dc any) error {
		for range 8 { // wrappers, for traces, say
			w, ok := dc.(interface{ Raw() driver.Conn })
			if !ok {
				break
			}
			dc = w.Raw()
		}
		for _, name := range []string{"Conn", "PgConn"} { // pgx: stdlib.Conn, pgx.Conn, pgconn.PgConn
			dc = call(dc, name)
		}
		if b, ok := call(dc, "TxStatus").(byte); ok {
			state = b
		}
		return nil
	})
	return state
}

// call calls a method without arguments and with one result, or gives nil.
func call(on any, name string) any {
	if on == nil {
		return nil
	}
	var m reflect.Value
	switch v := reflect.ValueOf(on); name { // by constants, so that the linker can leave out other methods
	case "Conn":
		m = v.MethodByName("Conn")
	case "PgConn":
		m = v.MethodByName("PgConn")
	case "TxStatus":
		m = v.MethodByName("TxStatus")
	}
	if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
		return nil
	}
	return m.Call(nil)[0].Interface()
}
