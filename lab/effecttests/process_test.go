package effecttests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest/faultsql"
	"github.com/stint-dev/stint/fence/fencetest/halt"
	"github.com/stint-dev/stint/fence/idempotent"
	"github.com/stint-dev/stint/fence/idempotent/storetest"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// This binary started again with orderEnv set is another process, the holder of
// token 7, that does one effect.
const (
	orderEnv = "EFFECTTESTS_ORDER"
	key      = "invoice/4711"
)

// order is what that process is told.
type order struct {
	Driver, DSN    string
	Dialect        sqlfence.Dialect
	Fence, Effects string // tables
	Bank           storetest.Bank
	Keys           bool  // which does one effect for each key
	At             int64 // the moment, from 1, at which the process gets
	Signal         syscall.Signal
}

// open opens the store, with a hook between it and the driver.
func (o order) open(hook faultsql.Hook) (*sql.DB, site, error) {
	db, err := faultsql.Open(o.Driver, o.DSN, hook)
	if err != nil {
		return nil, site{}, err
	}
	f, err := sqlfence.New(db, sqlfence.Options{Dialect: o.Dialect, Table: o.Fence, LockTimeout: 200 * time.Millisecond})
	if err != nil {
		return nil, site{}, errors.Join(err, db.Close())
	}
	s, err := idempotent.NewSQL(db, f, idempotent.SQLOptions{Dialect: o.Dialect, Table: o.Effects})
	if err != nil {
		return nil, site{}, errors.Join(err, db.Close())
	}
	return db, site{f, s}, nil
}

func (o order) effect(around func()) idempotent.Effect {
	return idempotent.Effect{Key: key, TakesKeys: o.Keys, Call: func(_ context.Context, key string) (string, error) {
		around()
		defer around()
		return "receipt", o.Bank.Pay(key)
	}}
}

// moments are before and after every request to the database, and before and
// after the payment.
type moments struct {
	order
	n       atomic.Int64
	counts  atomic.Bool
	stopped atomic.Bool // and past its lease since
}

func (m *moments) pass() {
	if !m.counts.Load() || m.n.Add(1) != m.At {
		return
	}
	if err := halt.Self(m.Signal); err != nil {
		panic(err)
	}
	m.stopped.Store(true)
}

func (m *moments) left() time.Duration {
	if m.stopped.Load() {
		return 0
	}
	return time.Hour
}

// child does the effect. How that ends for one that was stopped, the records and
// the remote side tell.
func child(text string) error {
	m := &moments{}
	if err := json.Unmarshal([]byte(text), &m.order); err != nil {
		return err
	}
	db, at, err := m.open(func(r faultsql.Request, _ faultsql.When) error {
		if r.Op != faultsql.Connect {
			m.pass()
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer db.Close()
	ctx := fence.WithTimeLeft(context.Background(), m.left)
	claim, err := at.f.Raise(ctx, "payments", fence.Grant{Token: 7, Nonce: "a"})
	if err != nil {
		return err
	}
	m.counts.Store(true)
	if _, err = idempotent.Do(ctx, at.s, claim, m.effect(m.pass)); m.stopped.Load() {
		return nil
	}
	return err
}

// A real process is killed, or stopped and continued past its lease, before and
// after each of its requests, inside its transactions too. Another one takes over
// in the meantime.
func TestAProcessKilledOrStoppedAtAnyStepNeverPaysTwice(t *testing.T) {
	for name, x := range servers {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
			for _, keys := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %v keys %v", name, sig, keys), func(t *testing.T) {
					t.Parallel()
					d := x.server(t).Database(t, sqlservers.Options{})
					n, ends := int64(1), map[string]int{}
					for reached := true; reached; n++ {
						o := order{Driver: d.Driver(), DSN: d.DSN(), Dialect: x.dialect, Keys: keys, At: n, Signal: sig,
							Fence: fmt.Sprintf("fence_%d", tables.Add(1)), Effects: fmt.Sprintf("effects_%d", tables.Add(1)),
							Bank: storetest.Bank(filepath.Join(t.TempDir(), "bank"))}
						how, again, err := o.play(t)
						if err != nil {
							t.Errorf("moment %d: %v", n, err)
						}
						ends[how]++
						reached = again
					}
					if n < 18 || ends["paid by the second"] == 0 || ends["paid by the first"] == 0 || ends["asked twice with one key"] == 0 == keys || ends["left to a person"] == 0 != keys {
						t.Errorf("%d moments: %v", n, ends)
					}
				})
			}
		}
	}
}

// play has the process do its effect up to its moment, and then the successor;
// then the process goes on. reached: the process came to its moment.
func (o order) play(t *testing.T) (how string, reached bool, err error) {
	db, at, err := o.open(func(faultsql.Request, faultsql.When) error { return nil })
	if err != nil {
		return "", false, err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(at.f.Migrate(ctx), at.s.Migrate(ctx)); err != nil {
		return "", false, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return "", false, err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orderEnv+"="+string(text), "GORACE="+strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", false, err
	}
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	stopped, err := stands(cmd.Process.Pid, o.Signal)
	if err != nil {
		return "", false, err
	}
	reached = stopped
	if !stopped { // killed, or through
		ended = true
		if err = cmd.Wait(); err != nil && o.Signal != syscall.SIGKILL {
			return "", false, fmt.Errorf("the process: %w", err)
		}
		reached = err != nil
	}
	asked, err := o.Bank.Asked()
	if err != nil {
		return "", reached, err
	}
	before := len(asked)
	claim, err := at.f.Raise(ctx, "payments", fence.Grant{Token: 12, Nonce: "b"})
	if err != nil {
		return "", reached, err
	}
	out, err := idempotent.Do(ctx, at.s, claim, o.effect(func() {}))
	asked, failed := o.Bank.Asked()
	if failed != nil {
		return "", reached, failed
	}
	by := len(asked) - before
	if stopped {
		ended = true
		if failed := errors.Join(cmd.Process.Signal(syscall.SIGCONT), cmd.Wait()); failed != nil {
			return "", reached, fmt.Errorf("the stopped process, continued: %w", failed)
		}
	}
	how, err = o.judge(out, err, by)
	if r, failed := at.s.Get(ctx, key); failed != nil || r.State != out.State {
		return how, reached, fmt.Errorf("the record is %v, %v; the second was told %v", r, failed, out)
	}
	return how, reached, err
}

// stands waits until the process is stopped, or has ended, which is left to Wait.
func stands(pid int, sig syscall.Signal) (stopped bool, err error) {
	if sig == syscall.SIGKILL {
		return false, nil
	}
	var info unix.Siginfo
	for {
		err = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			const stoppedCode = 5 // CLD_STOPPED of waitid(2)
			return err == nil && info.Code == stoppedCode, err
		}
	}
}

// judge looks at all that the remote side got, and at what the second was told; by
// is how often that one asked.
func (o order) judge(out idempotent.Outcome, err error, by int) (how string, wrong error) {
	asked, failed := o.Bank.Asked()
	if failed != nil {
		return "", failed
	}
	for _, k := range asked {
		if k != key {
			return "", fmt.Errorf("the remote side got the key %q", k)
		}
	}
	if len(asked) > 1 && !o.Keys || len(asked) > 2 {
		return "", fmt.Errorf("the remote side was asked %d times; %v, %v", len(asked), out, err)
	}
	switch {
	case len(asked) == 2 && out.State == idempotent.Done && err == nil:
		return "asked twice with one key", nil
	case len(asked) == 1 && out.State == idempotent.Done && err == nil && by == 1:
		return "paid by the second", nil
	case len(asked) == 1 && out.State == idempotent.Done && err == nil:
		return "paid by the first", nil
	case !o.Keys && by == 0 && out.State == idempotent.Unknown && errors.Is(err, fence.ErrUnknown):
		return "left to a person", nil
	}
	return "", fmt.Errorf("asked %d times, %d of them by the second; %v, %v", len(asked), by, out, err)
}
