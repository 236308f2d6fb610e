package main

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/fenceurl"
	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/sqlnode"
)

// With --fence, on a private server of each kind.
func TestTheFenceOfADatabaseServer(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]*sqlnode.Kind{"PostgreSQL": sqlnode.PostgreSQL, "MariaDB": sqlnode.MariaDB} {
		t.Run(name, func(t *testing.T) {
			n, err := sqlnode.Start(context.Background(), kind, sqlnode.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
			server := n.URL(n.Database())
			t.Run("is raised before the command and finished after it", func(t *testing.T) { raisedAndFinished(t, newWorld(t), server) })
			t.Run("records a key with DONE", func(t *testing.T) { recordedWithDone(t, newWorld(t), server) })
			t.Run("is finished by a store that says that it lives", func(t *testing.T) { triedAgain(t, server, n) })
			t.Run("outlives a restart of the server at the command's end", func(t *testing.T) { restartedAtTheEnd(t, newWorld(t), server, n) })
			t.Run("is migrated for a user who may make no tables", func(t *testing.T) { migratedForAnother(t, newWorld(t), server, kind) })
			t.Run("is opened without showing a password", func(t *testing.T) { wrongPassword(t, newWorld(t), server) })
		})
	}
}

// row reads the fence's row of a name.
func (w *world) row(url, name string) fence.Row {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	f, err := fenceurl.Open(ctx, url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	r, err := f.Row(ctx, name)
	if err != nil && !errors.Is(err, fence.ErrNoFence) {
		w.t.Fatal(err)
	}
	return r
}

func raisedAndFinished(t *testing.T, w *world, server string) {
	w.run("run", "k", "--", "true").expect(0) // token 1
	a := w.start("run", "k", "--fence", server, "--", "sh", "-c", "echo >ready; until [ -e go ]; do sleep 0.01; done")
	w.content("ready")
	if r := w.row(server, "k"); r.Fence != 2 || r.State != fence.Running {
		t.Errorf("while the command runs: %+v", r)
	}
	w.make("go")
	a.expect(0)
	if r := w.row(server, "k"); r.Fence != 2 || r.State != fence.Done {
		t.Errorf("after its success: %+v", r)
	}
	w.run("run", "k", "--fence", server, "--", "sh", "-c", "exit 3").expect(3)
	if r := w.row(server, "k"); r.Fence != 3 || r.State != fence.Running {
		t.Errorf("after a failure: %+v", r)
	}
	b := w.run("run", "k", "--authority", "sqlite://"+w.path("new.db"), "--fence", server, "--", "touch", "started")
	b.expect(69)
	b.told("already admitted 3")
}

// Half of what the record of --once promises is the database's: it is there
// exactly if DONE was set.
func recordedWithDone(t *testing.T, w *world, server string) {
	once := func(key, script string, code int) {
		t.Helper()
		w.run("run", "once", "--fence", server, "--once", key, "--skip-exit-code", "9", "--", "sh", "-c", script).expect(code)
	}
	once("a", "exit 3", 3)
	once("a", "exit 0", 0)
	once("a", "exit 4", 9)
	once("A", "exit 5", 5) // no collation takes it for the same
	once("A ", "exit 0", 0)
	once("A", "exit 6", 6)
	if r := w.row(server, "once"); r.State != fence.Running || r.Fence != 6 {
		t.Errorf("%+v", r)
	}
	// Somebody has raised above the holder: nothing is recorded.
	a := w.start("run", "once", "--fence", server, "--once", "b", "--", "sh", "-c", "echo >held; until [ -e go ]; do sleep 0.01; done")
	w.content("held")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	f, err := fenceurl.Open(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Bar(ctx, "once", 7); err != nil {
		t.Fatal(err)
	}
	w.make("go")
	a.expect(76)
	if by, err := f.RecordedBy(ctx, "once", "b"); by != "" || err != nil {
		t.Errorf("it was recorded %s (%v)", by, err)
	}
}

// Whoever waits for the server says that it lives: a watchdog's lease must not run
// out meanwhile.
func triedAgain(t *testing.T, server string, n *sqlnode.Node) {
	for _, key := range []string{"", "a"} {
		f, err := fenceurl.Open(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		claim, err := f.Raise(t.Context(), "again"+key, fence.Grant{Token: 7, Nonce: "a"})
		if err = errors.Join(err, n.Kill()); err != nil {
			t.Fatal(err)
		}
		alive, done := make(chan bool), make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		go func() {
			done <- f.Done(ctx, claim, key, "me", func() {
				select {
				case alive <- true:
				case <-ctx.Done():
				}
			})
		}()
		for range 3 {
			select {
			case <-alive:
			case err := <-done:
				t.Fatalf("key %q: it is not tried again: %v", key, err)
			case <-ctx.Done():
				t.Fatalf("key %q: it is not said to live", key)
			}
		}
		if err := n.Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
		for waits := true; waits; {
			select {
			case <-alive:
			case err = <-done:
				waits = false
			}
		}
		by, failed := f.RecordedBy(t.Context(), "again"+key, "a")
		r, missing := f.Row(t.Context(), "again"+key)
		if err := errors.Join(err, failed, missing); err != nil || r.State != fence.Done || (by != "") != (key != "") {
			t.Errorf("key %q: %+v, recorded %q: %v", key, r, by, err)
		}
		cancel()
		f.Close()
	}
}

// What is done is recorded, though the server is away when the command ends.
func restartedAtTheEnd(t *testing.T, w *world, server string, n *sqlnode.Node) {
	a := w.start("run", "away", "--fence", server, "--once", "a", "--log-format", "json", "--", "sh", "-c", "echo >held; until [ -e go ]; do sleep 0.01; done; echo >ended")
	w.content("held")
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	w.make("go")
	w.content("ended")
	if err := n.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	a.expect(0)
	for line := range strings.Lines(a.out.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("not a message of stint's: %q", line)
		}
	}
	w.run("run", "away", "--fence", server, "--once", "a", "--skip-exit-code", "9", "--", "true").expect(9)
	if r := w.row(server, "away"); r.State != fence.Done {
		t.Errorf("%+v", r)
	}
}

// The one who migrates may make tables; the job's own user uses those.
func migratedForAnother(t *testing.T, w *world, server string, kind *sqlnode.Kind) {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	of := func(table string) string {
		q := u.Query()
		q.Set("table", table)
		u.RawQuery = q.Encode()
		return u.String()
	}
	w.run("migrate", of("few_fence")).expect(0)
	db, _, err := sqlurl.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	make, user := "CREATE USER few@'127.0.0.1' IDENTIFIED BY 'few'", "few@'127.0.0.1'"
	if kind == sqlnode.PostgreSQL {
		make, user = "CREATE ROLE few LOGIN PASSWORD 'few'", "few"
	}
	for _, q := range []string{
		make, "GRANT SELECT, INSERT, UPDATE, DELETE ON few_fence TO " + user,
		"GRANT SELECT, UPDATE ON few_fence_meta TO " + user, "GRANT SELECT, INSERT ON few_fence_once TO " + user,
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	u.User = url.UserPassword("few", "few")
	run := func(table string, code int) {
		t.Helper()
		w.run("run", "few", "--fence", of(table), "--once", "a", "--skip-exit-code", "9", "--", "true").expect(code)
	}
	run("few_fence", 0)
	run("few_fence", 9)
	run("none_fence", 69)
}

func wrongPassword(t *testing.T, w *world, server string) {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "hunter2")
	begun := time.Now()
	a := w.run("run", "k", "--fence", u.String(), "--", "touch", "started")
	a.expect(69)
	if out := a.out.String(); strings.Contains(out, "hunter2") || !strings.Contains(out, "the fence could not be raised") {
		t.Errorf("after %v it said:\n%s", time.Since(begun), out)
	}
}
