package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-dev/stint/fence"
)

// What drivers give, without the drivers.
type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

type numberError struct {
	Number  uint16
	Message string
}

func (e *numberError) Error() string { return e.Message }

func TestErrorsAreToldApartWithoutADriver(t *testing.T) {
	for _, c := range []struct {
		d    *dialect
		err  error
		want kind
	}{
		{postgresDialect, stateError("40001"), conflict},
		{postgresDialect, stateError("40P01"), conflict},
		{postgresDialect, stateError("55P03"), timedOut},
		{postgresDialect, stateError("25006"), readOnly},
		{postgresDialect, stateError("57P01"), cut},
		{postgresDialect, stateError("25P03"), cut},
		{postgresDialect, stateError("08006"), cut},
		{postgresDialect, stateError("42P01"), missing},
		{postgresDialect, stateError("42501"), denied},
		{postgresDialect, stateError("23505"), other},
		{postgresDialect, errors.New("40001"), other},
		{mariaDialect, &numberError{1213, "Deadlock"}, conflict},
		{mariaDialect, &numberError{1020, "changed"}, conflict},
		{mariaDialect, &numberError{1205, "wait"}, timedOut},
		{mariaDialect, &numberError{1969, "max_statement_time"}, tooLong},
		{mariaDialect, &numberError{1290, "--read-only"}, readOnly},
		{mariaDialect, &numberError{1927, "killed"}, cut},
		{mariaDialect, &numberError{1146, "no table"}, missing},
		{mariaDialect, &numberError{1062, "duplicate"}, other},
		{mariaDialect, (*numberError)(nil), other},
		{mariaDialect, errors.New("1213"), other},
	} {
		for name, err := range map[string]error{
			"plain": c.err, "wrapped": fmt.Errorf("insert: %w", c.err), "joined": errors.Join(errors.New("first"), c.err),
		} {
			if (name == "plain" || c.err != error((*numberError)(nil))) && c.d.kind(err) != c.want {
				t.Errorf("%s, %s %v: kind %d, want %d", c.d.name, name, c.err, c.d.kind(err), c.want)
			}
		}
	}
}

func TestARefusalIsNeverRetryable(t *testing.T) {
	e := &Engine{d: postgresDialect, db: noDB{}}
	for _, err := range []error{
		nil, &fence.StaleError{}, &fence.RepeatedError{}, fence.ErrNoFence, fence.ErrNotRaised, fence.ErrSequence,
		fmt.Errorf("%w (%w)", fence.ErrChanged, stateError("40001")), stateError("23505"), errors.New("mine"), context.DeadlineExceeded,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET}, &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}},
	} {
		if e.Retryable(err) {
			t.Errorf("%v is called retryable", err)
		}
	}
	for _, err := range []error{stateError("40001"), stateError("25006"), fmt.Errorf("x: %w", ErrBusy), fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})} {
		if !e.Retryable(err) {
			t.Errorf("%v is not called retryable", err)
		}
	}
}

type noDB struct{ DB }

func (noDB) Dead(error) bool { return false }

func TestStatementsHaveNoPlaceForANameLeft(t *testing.T) {
	for _, d := range dialects {
		for _, own := range []*Own{nil, {Key: "job_id", Prefix: "x_"}} {
			e := &Engine{d: d, o: Options{Table: "a_fence", Own: own}}
			all := e.MigrateSQL()
			q := d.queries(e.o)
			all = append(all, q.lock, q.fresh, q.read, q.locked, q.floors, q.raise, q.again, q.admit, q.admitSeq, q.admits, q.ours,
				q.finish, q.requeue, q.claims, q.bar, q.drop, q.now, q.idle, q.setFloor, q.version, q.setVersion)
			for _, s := range all {
				for _, left := range []string{"{t}", "{m}", "{f}", "{now}", "{session}", "{admitted}", "{make}", "[fence]", "[name]", "[session]", "[mark]"} {
					if strings.Contains(s, left) {
						t.Errorf("%s: %s is left in: %s", d.name, left, s)
					}
				}
			}
			if want := map[string]int{"SQLite": 5, "PostgreSQL": 11, "MariaDB": 11}[d.name]; own == nil && len(all)-21 < want {
				t.Errorf("%s: only %d statements make the tables", d.name, len(all)-21)
			}
		}
	}
}
