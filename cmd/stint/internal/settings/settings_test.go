package settings

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestADurationNeedsAUnit(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration
		err  string // part of the message; empty: accepted
	}{
		{"10s", 10 * time.Second, ""},
		{"1m30s", 90 * time.Second, ""},
		{"500ms", 500 * time.Millisecond, ""},
		{"0", 0, ""},
		{"0s", 0, ""},
		{"10", 0, "write 10s"},
		{"+10", 0, "write 10s"},
		{"2.5", 0, "write 2.5s"},
		{"-1", 0, "negative"},
		{"-1s", 0, "negative"},
		{"1e9h", 0, "not a duration"},
		{"9999999999h", 0, "longer than can be counted"},
		{"3000000h", 0, "longer than can be counted"},
		{"ten", 0, "not a duration"},
		{"", 0, "not a duration"},
		{"10 s", 0, "not a duration"},
	} {
		got, err := ParseDuration(c.in)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("%q: %v, %v; want %v", c.in, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: error %v; want one with %q", c.in, err, c.err)
		}
	}
}

func flags() (*pflag.FlagSet, *time.Duration, *bool) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	d, b := new(time.Duration), new(bool)
	f.Var(Duration{d}, "ttl", "")
	f.BoolVar(b, "no-wait", false, "")
	f.Int("token", 0, "")
	return f, d, b
}

func TestAFlagWinsOverItsVariable(t *testing.T) {
	t.Setenv("STINT_TTL", "20s")
	t.Setenv("STINT_NO_WAIT", "true")
	f, d, b := flags()
	if err := f.Parse([]string{"--ttl", "3s"}); err != nil {
		t.Fatal(err)
	}
	if err := FromEnv(f); err != nil {
		t.Fatal(err)
	}
	if *d != 3*time.Second || !*b {
		t.Errorf("ttl %v, no-wait %v; want 3s from the flag and true from the variable", *d, *b)
	}
	if !f.Changed("no-wait") {
		t.Error("a flag set by its variable does not count as given")
	}
}

func TestABadVariableIsNamed(t *testing.T) {
	t.Setenv("STINT_TTL", "20")
	f, _, _ := flags()
	err := FromEnv(f)
	if e, ok := errors.AsType[*EnvError](err); !ok || e.Variable != "STINT_TTL" || !strings.Contains(err.Error(), "write 20s") {
		t.Errorf("error %v; want one that names STINT_TTL and says to write 20s", err)
	}
}

func TestAnEmptyVariableIsNotSet(t *testing.T) {
	t.Setenv("STINT_TTL", "")
	f, d, _ := flags()
	if err := FromEnv(f); err != nil || *d != 0 || f.Changed("ttl") {
		t.Errorf("ttl %v, error %v; want nothing changed", *d, err)
	}
}

// The command of a run finds its own token in STINT_TOKEN. Were it the default
// of release --token, a forgotten flag would end the command's own lease.
func TestTheTokenIsNotTakenFromTheEnvironment(t *testing.T) {
	t.Setenv("STINT_TOKEN", "7")
	f, _, _ := flags()
	if err := FromEnv(f); err != nil {
		t.Fatal(err)
	}
	if n, _ := f.GetInt("token"); n != 0 {
		t.Errorf("token %d was read from STINT_TOKEN", n)
	}
}

func TestTheDefaultFileLiesInTheServicesStateFolder(t *testing.T) {
	for _, c := range []struct{ dirs, want string }{
		{"/var/lib/billing", "/var/lib/billing/leases.db"},
		{"/var/lib/billing:/var/lib/other", "/var/lib/billing/leases.db"},
	} {
		t.Setenv("STATE_DIRECTORY", c.dirs)
		if got, err := DefaultFile(); err != nil || got != c.want {
			t.Errorf("STATE_DIRECTORY=%s: %s, %v; want %s", c.dirs, got, err, c.want)
		}
	}
	t.Setenv("STATE_DIRECTORY", "relative")
	if got, err := DefaultFile(); err == nil && !filepath.IsAbs(got) {
		t.Errorf("a relative STATE_DIRECTORY gave %s", got)
	}
}

func TestAFileURLKeepsOddCharacters(t *testing.T) {
	if got, want := FileURL("/tmp/a b#?%/l.db"), "sqlite:///tmp/a%20b%23%3F%25/l.db"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
