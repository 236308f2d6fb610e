package main

import (
	"database/sql"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestBreakingTheGlassOnEtcd: the fence first, then the very grant that was named;
// who waits comes next, and its token passes the fence.
func TestBreakingTheGlassOnEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newNodes(w, 1)
	c.up()
	db, err := sql.Open("sqlite3", "file:"+w.path("store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE invoices (id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	fenced := "--fence=sqlite://" + w.path("store.db")
	hold := func(file string, more ...string) *process {
		args := append([]string{"run", "k", "--authority", c.url()}, more...)
		return w.start(append(args, "--", "sh", "-c", "echo $STINT_TOKEN >"+file+"; exec sleep 300")...)
	}
	release := func(token string, more ...string) *process {
		args := append([]string{"release", "k", "--authority", c.url(), "--token", token, "--reason", "it hangs", "--yes"}, more...)
		return w.run(args...)
	}
	says := func(p *process, code int, want string) {
		t.Helper()
		p.expect(code)
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("%q is missing in: %s", want, p.out.String())
		}
	}
	number := func(token string) int64 {
		t.Helper()
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	first := hold("first")
	token := w.content("first")
	second := hold("second", fenced)
	says(release(strconv.FormatInt(number(token)+1, 10)), 75, "nothing was changed")
	says(release(token), 0, "no --fence is named: the holder can still write")
	first.expect(76)
	next := w.content("second")
	if number(next) <= number(token) {
		t.Errorf("token %s after %s", next, token)
	}
	says(release(token), 75, "nothing was changed")

	third := hold("third", fenced)
	says(release(next, fenced), 0, "token "+next+" is shut out of")
	second.expect(76)
	if last := w.content("third"); number(last) <= number(next) {
		t.Errorf("token %s after %s", last, next)
	}
	third.signal(syscall.SIGTERM)
	third.code()

	says(w.run("bump", "--authority", c.url()), 78, "stint restore")
}
