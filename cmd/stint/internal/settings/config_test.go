package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

type run struct {
	ttl                      time.Duration
	noWait                   bool
	wait                     time.Duration
	authority, fence, config string
}

func runFlags() (*pflag.FlagSet, *run) {
	f, r := pflag.NewFlagSet("test", pflag.ContinueOnError), &run{}
	f.Var(Duration{&r.ttl}, "ttl", "")
	f.Var(Duration{&r.wait}, "wait", "")
	f.BoolVar(&r.noWait, "no-wait", false, "")
	f.StringVar(&r.authority, "authority", "", "")
	f.StringVar(&r.fence, "fence", "", "")
	f.StringVar(&r.config, "config", "", "")
	f.Bool("dry-run", false, "")
	return f, r
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stint.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAFlagWinsOverItsVariableAndThatOverTheFile(t *testing.T) {
	path := configFile(t, "\ufeff# of all hosts\r\n\r\nttl = 3s\nauthority=sqlite:///x.db?a=b\r\n  fence =  \"sqlite:///a #b\" \nwait = 1m\n")
	t.Setenv("STINT_AUTHORITY", "sqlite:///env.db")
	f, r := runFlags()
	if err := f.Parse([]string{"--ttl", "9s", "--no-wait", "--config", path}); err != nil {
		t.Fatal(err)
	}
	from, err := Resolve(f)
	if err != nil {
		t.Fatal(err)
	}
	want := run{ttl: 9 * time.Second, noWait: true, authority: "sqlite:///env.db", fence: "sqlite:///a #b", config: path}
	if *r != want {
		t.Errorf("%+v; want %+v", *r, want)
	}
	for name, origin := range map[string]string{"ttl": "--ttl", "authority": "STINT_AUTHORITY", "fence": path + ", line 5", "wait": ""} {
		if from[name] != origin {
			t.Errorf("%s comes from %q; want %q", name, from[name], origin)
		}
	}
	if f.Changed("wait") {
		t.Error("what the flag --no-wait excludes counts as given")
	}
}

func TestAWrongLineOfAFileIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"ttl = 3s\nttl = 4s":              "line 2: ttl was set in line 1",
		"# x\n\nttl = 3":                  "line 3: ttl: \"3\" has no unit: write 3s",
		"tll = 3s":                        "line 1: there is no setting \"tll\"",
		"no_wait = true":                  "did you mean no-wait?",
		"[nightly]":                       "line 1: \"[nightly]\" is no setting",
		"ttl":                             "is no setting",
		"config = /x":                     "there is no setting \"config\"",
		"dry-run = true":                  "there is no setting \"dry-run\"",
		"help = true":                     "there is no setting \"help\"",
		"ttl =":                           "ttl: it is empty",
		"fence = \"\"":                    "fence: it is empty",
		"ttl = 3s # three":                "a comment stands on a line of its own",
		"fence = \"sqlite:///x":           "does not end where its quotes do",
		"no-wait = maybe":                 "\"maybe\" is neither true nor false",
		"ttl = 3s\nauthority = x\nttl=9s": "line 3",
	} {
		f, _ := runFlags()
		path := configFile(t, text)
		if err := f.Set("config", path); err != nil {
			t.Fatal(err)
		}
		_, err := Resolve(f)
		if e, ok := errors.AsType[*FileError](err); !ok || !strings.Contains(err.Error(), want) || e.Path != path {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// What a flag or a variable has replaced may be used tomorrow.
func TestALineThatIsNotUsedHasToBeRightAsWell(t *testing.T) {
	f, r := runFlags()
	if err := f.Parse([]string{"--ttl", "9s", "--config", configFile(t, "ttl = soon")}); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(f); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v", err)
	}
	if r.ttl != 9*time.Second {
		t.Errorf("ttl %v", r.ttl)
	}
}

func TestAFileThatIsNotThereIsNamed(t *testing.T) {
	t.Setenv("STINT_CONFIG", "/none/stint.conf")
	f, _ := runFlags()
	if _, err := Resolve(f); err == nil || err.Error() != "the file /none/stint.conf: no such file or directory" {
		t.Errorf("%v", err)
	}
}

func FuzzAnyLineIsReadOrRefused(f *testing.F) {
	f.Add("ttl = 3s")
	f.Add("fence = \"a\\u0000\"")
	f.Fuzz(func(t *testing.T, line string) {
		flags, _ := runFlags()
		_ = setLine(flags, line, func(string) (bool, error) { return true, nil })
	})
}
