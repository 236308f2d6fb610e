package sqlfence

import (
	"database/sql/driver"
	"testing"
)

type fake struct {
	driver.Conn
	hook func() int // what SQLite would ask: not zero refuses
}

// The three shapes in which drivers of SQLite offer a commit hook.
type (
	boolConn    struct{ fake }
	intConn     struct{ fake }
	namedConn   struct{ fake }
	namedHook   func() int32
	foreignConn struct{ driver.Conn }
	wrapper     struct {
		driver.Conn
		inner driver.Conn
	}
)

func (c *boolConn) CommitHook(ok func() bool) {
	if c.hook = nil; ok != nil {
		c.hook = func() int {
			if ok() {
				return 0
			}
			return 1
		}
	}
}

func (c *intConn) RegisterCommitHook(hook func() int) { c.hook = hook }

func (c *namedConn) RegisterCommitHook(hook namedHook) {
	if c.hook = nil; hook != nil {
		c.hook = func() int { return int(hook()) }
	}
}

// RegisterCommitHook is of some other shape.
func (c *foreignConn) RegisterCommitHook(string) { panic("called") }

func (c *wrapper) Raw() driver.Conn { return c.inner }

func TestTheCommitHookOfEveryKnownDriverIsFound(t *testing.T) {
	var b boolConn
	var i intConn
	var n namedConn
	for name, c := range map[string]struct {
		conn driver.Conn
		hook *func() int
	}{
		"ncruces": {&b, &b.hook},
		"mattn":   {&i, &i.hook},
		"modernc": {&n, &n.hook},
		"wrapped": {&wrapper{inner: &wrapper{inner: &n}}, &n.hook},
	} {
		set := sqliteCommitHook(c.conn)
		if set == nil {
			t.Fatalf("%s: no hook was found", name)
		}
		allowed := false
		set(func() bool { return allowed })
		if (*c.hook)() == 0 {
			t.Errorf("%s: a commit was let through", name)
		}
		if allowed = true; (*c.hook)() != 0 {
			t.Errorf("%s: a commit was refused", name)
		}
		if set(nil); *c.hook != nil {
			t.Errorf("%s: the hook was not taken away", name)
		}
	}
}

func TestADriverWithoutACommitHookIsLeftAlone(t *testing.T) {
	circle := &wrapper{}
	circle.inner = circle
	for _, c := range []any{nil, &fake{}, &foreignConn{}, &wrapper{}, circle} {
		if sqliteCommitHook(c) != nil {
			t.Errorf("a hook was found on %T", c)
		}
	}
}
