package sqlcore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

// crowd holds a row in turn, as those do who come and go: each look sees the next.
type crowd struct {
	seen  []session
	ended []int64
}

func (c *crowd) find(context.Context, *Engine, string) (session, error) {
	s := c.seen[0]
	if len(c.seen) > 1 {
		c.seen = c.seen[1:]
	}
	return s, nil
}

func (c *crowd) end(_ context.Context, _ *Engine, _ string, s session) error {
	c.ended = append(c.ended, s.id)
	return nil
}

func (*crowd) remedy(session) string { return "" }

// emptyDB has no rows.
type emptyDB struct{ DB }

func (emptyDB) Query(context.Context, string, []any, func(func(...any) error) error) error {
	return nil
}

func TestARaiseEndsOnlyWhoStays(t *testing.T) {
	for what, c := range map[string]struct {
		seen []session
		ends bool
	}{
		"another one holds it at the second look":          {[]session{{id: 1, ms: -1}, {id: 2, ms: -1}}, false},
		"nobody holds it at the second look":               {[]session{{id: 1, ms: -1}, {}}, false},
		"the same one holds it, in its next transaction":   {[]session{{id: 1, ms: -1, version: "7 a 1"}, {id: 1, ms: -1, version: "7 a 2"}}, false},
		"the same one holds it, in the same transaction":   {[]session{{id: 1, ms: -1, version: "7 a 1"}}, true},
		"one is known to have it for the lock timeout":     {[]session{{id: 1, ms: 1000}, {id: 2, ms: 0}}, true},
		"one is known to have it for less":                 {[]session{{id: 1, ms: 999}}, false},
		"one that cannot be ended is known to hold it":     {[]session{{prepared: "p", ms: -1}}, false},
		"one that could not be ended is gone by that time": {[]session{{prepared: "p", ms: -1}, {}}, false},
	} {
		h := &crowd{seen: c.seen}
		e := &Engine{db: emptyDB{}, d: &dialect{holder: h}, q: &queries{}, lockTimeout: time.Second}
		err := e.endHolder(t.Context(), right{name: "billing", grant: fence.Grant{Token: 7, Nonce: "a"}})
		if (len(h.ended) > 0) != c.ends {
			t.Errorf("%s: ended %v, %v", what, h.ended, err)
		}
		if blocked := c.seen[len(c.seen)-1].prepared != ""; errors.Is(err, ErrBlocked) != blocked {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
}
