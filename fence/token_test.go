package fence_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stint-dev/stint/fence"
)

func TestAGrantStringHasOneForm(t *testing.T) {
	for s, want := range map[string]fence.Grant{
		"1.a":                   {Token: 1, Nonce: "a"},
		"12.k3f9":               {Token: 12, Nonce: "k3f9"},
		"9007199254740991.Z-_0": {Token: fence.MaxToken, Nonce: "Z-_0"},
	} {
		g, err := fence.ParseGrant(s)
		if err != nil || g != want || g.String() != s {
			t.Errorf("%q: %v, %v", s, g, err)
		}
	}
	for _, s := range []string{
		"", ".", "12", "12.", ".a", "0.a", "-1.a", "+7.a", "007.a", " 7.a", "7 .a", "7.a ", "7.a\n", "7,a", "1e3.a", "0x7.a", "7.a.b", "7.é",
		"9007199254740992.a", "9223372036854775808.a", "7." + strings.Repeat("a", 65), "seven.a", "\xff.a",
	} {
		if g, err := fence.ParseGrant(s); err == nil || !g.IsZero() {
			t.Errorf("%q was read as %v", s, g)
		} else if errors.Is(err, fence.ErrWeak) {
			t.Errorf("%q is called weak: %v", s, err)
		}
	}
}

func TestAWeakGrantSaysSoOverTheWire(t *testing.T) {
	w := fence.Weak{Token: 12, Nonce: "k3f9"}
	if w.String() != "weak-12.k3f9" {
		t.Errorf("the string is %q", w)
	}
	if _, err := fence.ParseGrant(w.String()); !errors.Is(err, fence.ErrWeak) {
		t.Errorf("it was read: %v", err)
	}
}

func TestTokensStayExactInJSON(t *testing.T) {
	if f := float64(fence.MaxToken); fence.Token(f) != fence.MaxToken || f+1 == f {
		t.Errorf("MaxToken %d is not exact as a float64", fence.MaxToken)
	}
	for _, bad := range []fence.Token{0, -1, math.MinInt64, fence.MaxToken + 1, math.MaxInt64} {
		if bad.Valid() {
			t.Errorf("%d is valid", bad)
		}
	}
}

func TestNamesKeepTheirBytes(t *testing.T) {
	for _, name := range []string{"/a", "a//b", "a/../b", " a ", "a%2Fb", "#x", "a", "é", "日本", strings.Repeat("n", fence.MaxName)} {
		if err := fence.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", strings.Repeat("n", fence.MaxName+1), "a\xff", "\n", "a\x00b", "a\u0085"} {
		if err := fence.CheckName(name); err == nil {
			t.Errorf("%.20q was accepted", name)
		}
	}
}

func TestARefusalCarriesBothNumbersAndWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err   error
		is    error
		words []string
	}{
		{&fence.StaleError{Name: "billing", Presented: 7, Fence: 12}, fence.ErrStale, []string{"billing", "7", "12", "Nothing was written", "stop"}},
		{&fence.StaleError{Name: "billing", Presented: 7, Fence: 12, AtRaise: true}, fence.ErrStale, []string{"7", "12", "restored without a bump?", "above 12"}},
		{&fence.RepeatedError{Name: "billing", Presented: fence.Grant{Token: 15, Nonce: "b"}, Admitted: fence.Grant{Token: 15, Nonce: "a"}},
			fence.ErrRepeated, []string{"15.a", "15.b", "restored without a bump?", "Nothing was written"}},
	} {
		if !errors.Is(c.err, c.is) {
			t.Errorf("%v does not match %v", c.err, c.is)
		}
		for _, w := range c.words {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("the error does not say %q: %v", w, c.err)
			}
		}
	}
}

func FuzzParseGrant(f *testing.F) {
	for _, s := range []string{"12.k3f9", "weak-12.k3f9", "", ".", "7", "007.a", "9007199254740992.a", "7.a.b", "+7.a", "7.\xff", "1.-_"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := fence.ParseGrant(s)
		if err != nil {
			if !g.IsZero() {
				t.Fatalf("%q: error and %v", s, g)
			}
			return
		}
		if g.String() != s {
			t.Fatalf("%q was read as %v", s, g)
		}
		if err := g.Validate(); err != nil {
			t.Fatalf("%q was read as %v: %v", s, g, err)
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"", "a", "/a", "a\x00", "\xff", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := fence.CheckName(s)
		if bad := s == "" || len(s) > fence.MaxName || strings.ContainsRune(s, 0) || strings.ToValidUTF8(s, "") != s; bad && err == nil {
			t.Fatalf("%q was accepted", s)
		}
	})
}
