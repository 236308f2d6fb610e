package settings

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A configuration file has one setting a line, "name = value", where name is a
// flag's without its dashes. A line that is empty or begins with # says nothing.
// A value may stand in double quotes, with the escapes of Go; it has to where it
// begins or ends with a space, or holds " #", which would look like a comment.

// FileError is a mistake in a configuration file.
type FileError struct {
	Path string
	Line int // 0: the file as a whole
	Err  error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the file %s: %s", e.Path, plain(e.Err))
	}
	return fmt.Sprintf("%s, line %d: %s", e.Path, e.Line, plain(e.Err))
}

func (e *FileError) Unwrap() error { return e.Err }

// Origins say where the value of a flag comes from: "--ttl", "STINT_TTL" or
// "FILE, line 3". A flag that is not in it has its default.
type Origins map[string]string

// notFromFile are flags that say what to do now, and not how.
var notFromFile = map[string]bool{"config": true, "dry-run": true}

// Resolve sets every flag that was not given: from its variable, else from the
// file that the flag --config names, if there is such a flag. The error is an
// *EnvError or a *FileError.
func Resolve(flags *pflag.FlagSet) (Origins, error) {
	from := Origins{}
	changed(flags, func(f *pflag.Flag) { from[f.Name] = "--" + f.Name })
	if err := FromEnv(flags); err != nil {
		return nil, err
	}
	changed(flags, func(f *pflag.Flag) {
		if from[f.Name] == "" {
			from[f.Name] = EnvName(f.Name)
		}
	})
	if f := flags.Lookup("config"); f != nil && f.Value.String() != "" {
		if err := fromFile(flags, f.Value.String(), from); err != nil {
			return nil, err
		}
	}
	return from, nil
}

// changed visits the flags that have a value by now, however they got it.
func changed(flags *pflag.FlagSet, visit func(*pflag.Flag)) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			visit(f)
		}
	})
}

// mostFile is more than anybody writes.
const mostFile = 1 << 20

func fromFile(flags *pflag.FlagSet, path string, from Origins) error {
	text, err := os.ReadFile(path)
	if err == nil && len(text) > mostFile {
		err = errors.New("it is no configuration file: it is longer than 1 MiB")
	}
	if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	if err != nil {
		return &FileError{path, 0, err}
	}
	given := map[string]bool{} // by a flag or a variable: they win, over what excludes them too
	changed(flags, func(f *pflag.Flag) { given[f.Name] = f.Value.String() != "false" })
	seen := map[string]int{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		if err := setLine(flags, strings.TrimSpace(line), func(name string) (bool, error) {
			if was := seen[name]; was != 0 {
				return false, fmt.Errorf("%s was set in line %d already", name, was)
			}
			seen[name] = n
			use := !flags.Changed(name) && !given[excludes[name]]
			if use {
				from[name] = fmt.Sprintf("%s, line %d", path, n)
			}
			return use, nil
		}); err != nil {
			return &FileError{path, n, err}
		}
	}
	return nil
}

// setLine sets what one line says, if it is to be used. What is not used has to
// be right as well: it may be used tomorrow.
func setLine(flags *pflag.FlagSet, line string, use func(name string) (bool, error)) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		return fmt.Errorf("%.40q is no setting: write name = value", line)
	}
	name = strings.TrimSpace(name)
	f := flags.Lookup(name)
	if f == nil || !HasEnv(f) || notFromFile[name] {
		return unknown(flags, name)
	}
	value, err := valueOf(strings.TrimSpace(value))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	wanted, err := use(name)
	if err != nil {
		return err
	}
	was, changed := f.Value.String(), f.Changed
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("%s: %s", name, plain(err))
	}
	f.Changed = true
	if !wanted {
		if f.Value.Set(was) != nil { // a duration that was not given is written as nothing
			_ = f.Value.Set("0")
		}
		f.Changed = changed
	}
	return nil
}

func valueOf(v string) (string, error) {
	switch {
	case strings.HasPrefix(v, `"`):
		text, err := strconv.Unquote(v)
		if err != nil {
			return "", fmt.Errorf("%.40q does not end where its quotes do", v)
		}
		v = text
	case strings.Contains(v, " #"), strings.Contains(v, "\t#"):
		return "", errors.New("a comment stands on a line of its own (or is it a value with a # in it? Then write it in double quotes)")
	}
	if v == "" {
		return "", errors.New("it is empty; leave the line out")
	}
	return v, nil
}

// unknown refuses a name, and says which one it may have been meant for.
func unknown(flags *pflag.FlagSet, name string) error {
	var near string
	flags.VisitAll(func(f *pflag.Flag) {
		if HasEnv(f) && !notFromFile[f.Name] && (strings.EqualFold(f.Name, strings.ReplaceAll(name, "_", "-")) ||
			len(name) > 2 && (strings.HasPrefix(f.Name, name) || strings.HasPrefix(name, f.Name))) {
			near = f.Name
		}
	})
	if near != "" {
		return fmt.Errorf("there is no setting %.40q; did you mean %s?", name, near)
	}
	return fmt.Errorf("there is no setting %.40q", name)
}
