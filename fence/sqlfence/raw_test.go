package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"
)

// idle is a database whose connections do nothing.
type idle struct{}

func (idle) Connect(context.Context) (driver.Conn, error) { return idleConn{}, nil }
func (idle) Driver() driver.Driver                        { return nil }

type idleConn struct{}

func (idleConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("does nothing") }
func (idleConn) Begin() (driver.Tx, error)           { return nil, errors.New("does nothing") }
func (idleConn) Close() error                        { return nil }

// A connection may be closed by database/sql at the very moment that it is
// looked into.
func TestAConnectionThatIsClosedMeanwhileIsNoPanic(t *testing.T) {
	db := sql.OpenDB(idle{})
	defer db.Close()
	for range 20000 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() { _ = raw(conn, func(any) error { return driver.ErrBadConn }) })
		group.Go(func() { _ = conn.Close() })
		group.Wait()
	}
}

func TestAPanicOfWhatLooksIntoAConnectionIsItsOwn(t *testing.T) {
	db := sql.OpenDB(idle{})
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer func() {
		if recover() == nil {
			t.Error("the panic was swallowed")
		}
	}()
	_ = raw(conn, func(any) error { panic("mine") })
}
