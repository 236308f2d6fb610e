package settings

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// notFromEnv are flags without a variable. STINT_TOKEN and STINT_NAME are what
// run tells its command: the token of the command's own lease must not become
// the one that release ends, nor the lease's name a node's.
var notFromEnv = map[string]bool{"help": true, "version": true, "token": true, "name": true}

// EnvName is the variable of a flag, or "" where there is none.
func EnvName(flag string) string {
	if notFromEnv[flag] {
		return ""
	}
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// NoEnv takes the variable from one command's flag that means something else
// than the flag of that name elsewhere.
func NoEnv(f *pflag.Flag) {
	f.Annotations = map[string][]string{noEnv: nil}
}

const noEnv = "stint-no-variable"

// HasEnv reports whether a flag has a variable.
func HasEnv(f *pflag.Flag) bool {
	_, without := f.Annotations[noEnv]
	return !without && EnvName(f.Name) != ""
}

// neverEmpty are variables that an empty value does not unset: a script that
// fails to fill in its store would run without any fence.
var neverEmpty = map[string]bool{"fence": true, "once": true}

// excludes are flags that contradict each other: one that was given wins over
// the other one's variable too.
var excludes = map[string]string{"authority": "local", "local": "authority", "wait": "no-wait", "no-wait": "wait"}

// FromEnv sets every flag that was not given from its variable. An empty
// variable is one that is not set, but for that of --fence, which is refused. The
// error names the variable.
func FromEnv(flags *pflag.FlagSet) error {
	var first error
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() != "false" })
	flags.VisitAll(func(f *pflag.Flag) {
		env := EnvName(f.Name)
		if first != nil || f.Changed || !HasEnv(f) || given[excludes[f.Name]] {
			return
		}
		v, set := os.LookupEnv(env)
		switch {
		case set && v == "" && neverEmpty[f.Name]:
			first = &EnvError{env, errors.New("it is empty; unset it to do without")}
			return
		case v == "":
			return
		}
		if err := f.Value.Set(v); err != nil {
			first = &EnvError{env, err}
			return
		}
		f.Changed = true
	})
	return first
}

// FlagError says what is wrong with the flags of a command line, in plain words.
func FlagError(err error) string {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return "--" + bad.GetFlag().Name + ": " + plain(bad.Unwrap())
	}
	return err.Error()
}

// EmptyGiven is a flag of those names that was given with an empty value: a
// script's variable that was not set, most likely. "": there is none.
func EmptyGiven(flags *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if f := flags.Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return name
		}
	}
	return ""
}

// EnvError is a bad value in the environment.
type EnvError struct {
	Variable string
	Err      error
}

func (e *EnvError) Error() string {
	return fmt.Sprintf("the variable %s: %s", e.Variable, plain(e.Err))
}

// plain says what is wrong with a number or a yes without a parser's words.
func plain(err error) string {
	n, ok := errors.AsType[*strconv.NumError](err)
	switch {
	case !ok:
		return err.Error()
	case errors.Is(n.Err, strconv.ErrRange):
		return n.Num + " is too large a number"
	case n.Func == "ParseUint" && strings.HasPrefix(n.Num, "-"):
		return fmt.Sprintf("%q is below zero", n.Num)
	case n.Func == "ParseBool":
		return fmt.Sprintf("%q is neither true nor false", n.Num)
	}
	return fmt.Sprintf("%q is not a whole number", n.Num)
}

func (e *EnvError) Unwrap() error { return e.Err }
