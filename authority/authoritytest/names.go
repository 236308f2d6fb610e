package authoritytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/authority"
)

var nameCases = []Case{
	{"names stay distinct", "A name is kept byte by byte: nothing in it is special, and two names are the same only if their bytes are.", nothing, namesDistinct},
	{"bad names change nothing", "A name that cannot be kept is refused by every method with ErrInvalid.", nothing, badNames},
	{"bad lengths change nothing", "A length that cannot be kept is refused with ErrInvalid and the nearest that can.", nothing, badLengths},
	{"bad nonces change nothing", "A nonce that would need quoting is refused with ErrInvalid.", nothing, badNonces},
	{"long holders are cut", "At most MaxHolder bytes of Holder are kept; a longer one is no reason to refuse.", nothing, longHolders},
}

func oddNames() []string {
	return []string{
		"/a", "a", "a/", "a//b", "a/b", "a/../b", "b", " a ", " a", "a ", "a%2Fb", "a%2fb", "#x", "x", "?x=1", "x.", "X",
		"ß", "ss", "é", "e\u0301", "снег", "❄", "a:b", "a\\b", "'a'", "\"a\"", "a;b", "%", "_", "*", "NULL", "0", "00", "1e3", ".", "..",
		strings.Repeat("n", 65), strings.Repeat("n", 64), strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("n", 1000), strings.Repeat("n", 1024),
	}
}

func namesDistinct(e *env) {
	tokens := map[string]authority.Grant{}
	for _, n := range oddNames() {
		tokens[n] = e.acquire(e.a, e.long(e.ask(n)))
	}
	for n, g := range tokens {
		if s := e.inspect(e.b, n); !s.Held || s.Grant != g.Grant {
			e.Errorf("%.40q was granted as %v, now %+v", n, g.Grant, s)
		}
		e.release(e.b, g)
	}
}

func badNames(e *env) {
	for _, n := range []string{"", strings.Repeat("n", 1025), "a\xff", "a\x00b", "a\nb", "\x7f"} {
		r := e.ask(n)
		_, err := e.a.Acquire(e.ctx, r)
		e.invalid(fmt.Sprintf("Acquire %.20q", n), err)
		_, err = e.a.Inspect(e.ctx, n)
		e.invalid(fmt.Sprintf("Inspect %.20q", n), err)
		g := authority.Grant{Name: n, Length: e.length}
		g.Token, g.Nonce = 1, "x"
		_, err = e.a.Renew(e.ctx, g)
		e.invalid(fmt.Sprintf("Renew %.20q", n), err)
		e.invalid(fmt.Sprintf("Release %.20q", n), e.a.Release(e.ctx, g))
	}
	e.nothingThere()
}

func badLengths(e *env) {
	for _, d := range []time.Duration{0, -1, -time.Hour, 1, time.Millisecond - 1, authority.MaxLength + 1, 1<<63 - 1, -1 << 63} {
		r := e.ask("x")
		r.Length = d
		_, err := e.a.Acquire(e.ctx, r)
		e.invalid(fmt.Sprintf("a length of %v", d), err)
	}
	if s := e.inspect(e.b, "x"); s.Held || !s.Grant.IsZero() {
		e.Errorf("a refused length left %+v", s)
	}
	e.nothingThere()
	r := e.ask("long")
	r.Length = authority.MaxLength
	g := e.acquire(e.a, r)
	e.renew(e.a, g)
}

func badNonces(e *env) {
	for _, n := range []string{"", "a.b", "a b", "ä", strings.Repeat("n", 65)} {
		r := e.ask("x")
		r.Nonce = n
		_, err := e.a.Acquire(e.ctx, r)
		e.invalid(fmt.Sprintf("nonce %.10q", n), err)
		if n != "" {
			r = e.line("x", n)
			_, err = e.a.Acquire(e.ctx, r)
			e.invalid(fmt.Sprintf("waiter %.10q", n), err)
		}
	}
	e.nothingThere()
}

// nothingThere wants the authority to know no name, where it can say so.
func (e *env) nothingThere() {
	l, ok := e.a.(authority.Lister)
	if !ok {
		return
	}
	for s, err := range l.List(e.ctx) {
		e.Errorf("refused requests left %+v, %v", s, err)
	}
}

func longHolders(e *env) {
	r := e.ask("x")
	r.Holder = strings.Repeat("é", 200) + "\xff"
	e.acquire(e.a, r)
	s := e.inspect(e.b, "x")
	if len(s.Holder) > authority.MaxHolder || s.Holder == "" || !strings.HasPrefix(r.Holder, s.Holder) {
		e.Errorf("of a holder of %d bytes %d were kept: %q", len(r.Holder), len(s.Holder), s.Holder)
	}
}
