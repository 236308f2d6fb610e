package settings

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// notFromEnv are flags without a variable. STINT_TOKEN is what run tells its
// command: the token of the command's own lease must not become the one that
// release ends.
var notFromEnv = map[string]bool{"help": true, "version": true, "token": true}

// EnvName is the variable of a flag, or "" where there is none.
func EnvName(flag string) string {
	if notFromEnv[flag] {
		return ""
	}
	return "STINT_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromEnv sets every flag that was not given from its variable; an empty
// variable is one that is not set. The error names the variable.
func FromEnv(flags *pflag.FlagSet) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		env := EnvName(f.Name)
		if first != nil || f.Changed || env == "" {
			return
		}
		v := os.Getenv(env)
		if v == "" {
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
	case n.Func == "ParseBool":
		return fmt.Sprintf("%q is neither true nor false", n.Num)
	}
	return fmt.Sprintf("%q is not a whole number", n.Num)
}

func (e *EnvError) Unwrap() error { return e.Err }
