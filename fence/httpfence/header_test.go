package httpfence_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/httpfence"
)

func TestEveryNameTravelsUnchanged(t *testing.T) {
	for name, want := range map[string]string{
		"billing/2026-09":                 "billing/2026-09",
		"100%":                            "100%25",
		" a ":                             "%20a%20",
		"a,b;c\"d\\e":                     "a%2Cb%3Bc%22d%5Ce",
		"für":                             "f%C3%BCr",
		"a+b=c#d?e&f:g@h!*'()[]{}|~`^<>$": "a+b=c#d?e&f:g@h!*'()[]{}|~`^<>$",
		strings.Repeat("日", 341):          strings.Repeat("%E6%97%A5", 341),
	} {
		if got := httpfence.EncodeName(name); got != want {
			t.Errorf("%q is written %q", name, got)
		}
		if got, err := httpfence.DecodeName(want); err != nil || got != name {
			t.Errorf("%q is read as %q, %v", want, got, err)
		}
	}
	// As the URL functions of other languages write them.
	for written, want := range map[string]string{"a%2fb": "a/b", "%61": "a", "f%c3%bcr": "für", "a+b": "a+b"} {
		if got, err := httpfence.DecodeName(written); err != nil || got != want {
			t.Errorf("%q is read as %q, %v", written, got, err)
		}
	}
}

func TestANameThatCannotBeReadIsRefused(t *testing.T) {
	for _, bad := range []string{
		"", "a b", "a,b", "a;b", `"a"`, `a\b`, "%", "%4", "%zz", "a%", "%2", "für", "a\x00", "%00", "%0A", "%FF", "%C3", "a\n", "\x7f",
		strings.Repeat("a", fence.MaxName+1), strings.Repeat("%41", fence.MaxName+1), strings.Repeat("%", 1<<20),
	} {
		if name, err := httpfence.DecodeName(bad); err == nil || name != "" {
			t.Errorf("%.20q was read as %.20q", bad, name)
		}
	}
}

func TestAHeaderIsReadAsItWasSet(t *testing.T) {
	h := http.Header{}
	httpfence.SetHeader(h, "other", grant(1))
	httpfence.SetHeader(h, job, grant(12))
	if name, g, err := httpfence.ReadHeader(h); err != nil || name != job || g != grant(12) {
		t.Errorf("%q, %v, %v", name, g, err)
	}
}

func TestAHeaderIsMissingOrMalformedNeverGuessed(t *testing.T) {
	for _, c := range []struct {
		tokens, names []string
		want          error
	}{
		{nil, nil, httpfence.ErrMissing},
		{nil, []string{"a"}, httpfence.ErrMissing},
		{[]string{"7.a"}, nil, httpfence.ErrMissing},
		{[]string{""}, []string{"a"}, httpfence.ErrMissing},
		{[]string{"7.a"}, []string{""}, httpfence.ErrMissing},
		{[]string{"7.a", "7.a"}, []string{"a"}, httpfence.ErrMalformed},
		{[]string{"7.a"}, []string{"a", "b"}, httpfence.ErrMalformed},
		{[]string{"7.a, 8.b"}, []string{"a"}, httpfence.ErrMalformed}, // as a proxy joins two
		{[]string{"7.a"}, []string{"a,b"}, httpfence.ErrMalformed},
		{[]string{"7"}, []string{"a"}, httpfence.ErrMalformed},
		{[]string{"-1.a"}, []string{"a"}, httpfence.ErrMalformed},
		{[]string{"7.a"}, []string{"a b"}, httpfence.ErrMalformed},
		{[]string{"weak-7.a"}, []string{"a"}, httpfence.ErrMalformed},
		{[]string{"weak-7.a"}, []string{"a"}, fence.ErrWeak},
	} {
		h := http.Header{httpfence.HeaderToken: c.tokens, httpfence.HeaderName: c.names}
		if name, g, err := httpfence.ReadHeader(h); !errors.Is(err, c.want) || name != "" || !g.IsZero() {
			t.Errorf("%q %q: %q, %v, %v; want %v", c.tokens, c.names, name, g, err, c.want)
		}
	}
}

func FuzzReadHeader(f *testing.F) {
	for _, s := range [][2]string{{"12.k3f9", "billing"}, {"weak-1.a", "a"}, {"1.a", "%"}, {"1.a", "f%C3%BCr"}, {"1.a", "%ff"}, {"1.a", "a,b"}, {"", ""}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, token, encoded string) {
		name, g, err := httpfence.ReadHeader(http.Header{httpfence.HeaderToken: {token}, httpfence.HeaderName: {encoded}})
		if err != nil {
			if name != "" || !g.IsZero() || errors.Is(err, httpfence.ErrMissing) == errors.Is(err, httpfence.ErrMalformed) {
				t.Fatalf("%q, %v, %v", name, g, err)
			}
			return
		}
		if g.String() != token || fence.CheckName(name) != nil {
			t.Fatalf("%q %q was read as %q, %v", token, encoded, name, g)
		}
		h := http.Header{}
		httpfence.SetHeader(h, name, g)
		if again, same, err := httpfence.ReadHeader(h); err != nil || again != name || same != g {
			t.Fatalf("%q %v comes back as %q %v, %v", name, g, again, same, err)
		}
	})
}

func FuzzEncodeName(f *testing.F) {
	f.Add("billing")
	f.Add("f\xfcr, \x00")
	f.Fuzz(func(t *testing.T, name string) {
		written := httpfence.EncodeName(name)
		if !utf8.ValidString(written) || strings.ContainsAny(written, " ,;\"\\\r\n\x00\x7f") {
			t.Fatalf("%q is written %q", name, written)
		}
		got, err := httpfence.DecodeName(written)
		if valid := fence.CheckName(name) == nil; valid != (err == nil) || valid && got != name {
			t.Fatalf("%q is written %q and read as %q, %v", name, written, got, err)
		}
	})
}
