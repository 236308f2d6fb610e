package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/internal/protocol"
)

// part reads "lock KIND k=v…" or "store KIND k=v…".
func (s *Script) part(f []string) error {
	p, kinds := &s.Lock, lockKinds
	if f[0] == "store" {
		p, kinds = &s.Store, storeKinds
	}
	if p.Kind != "" {
		return fmt.Errorf("there is a %s already", f[0])
	}
	params, ok := kinds[f[1]]
	if !ok {
		return fmt.Errorf("unknown kind %q; there are %s", f[1], names(kinds))
	}
	values, err := params.read(f[2:])
	*p = Part{Name: f[0], Kind: f[1], Params: values}
	return err
}

func (s *Script) actor(f []string) error {
	if !isName(f[0]) {
		return fmt.Errorf("%q is not a name: up to 16 letters and digits, a letter first", f[0])
	}
	if slices.Contains(reserved, f[0]) || s.Actor(f[0]) != nil {
		return fmt.Errorf("the name %s is taken", f[0])
	}
	params, ok := actorKinds[f[1]]
	if !ok {
		return fmt.Errorf("unknown kind %q; there are %s", f[1], names(actorKinds))
	}
	if len(s.Actors) >= maxActors {
		return fmt.Errorf("more than %d take part", maxActors)
	}
	values, err := params.read(f[2:])
	s.Actors = append(s.Actors, Part{Name: f[0], Kind: f[1], Params: values})
	return err
}

// Actor is the part of a name, or nil.
func (s *Script) Actor(name string) *Part {
	if i := slices.IndexFunc(s.Actors, func(p Part) bool { return p.Name == name }); i >= 0 {
		return &s.Actors[i]
	}
	return nil
}

func (s *Script) link(f []string) error {
	values, err := linkParams.read(f[2:])
	s.Links = append(s.Links, Part{Name: f[0], Kind: f[1], Params: values})
	return err
}

func (s *Script) step(f []string) error {
	at, err := ParseTime(f[0])
	if err != nil {
		return err
	}
	if at < 0 {
		return fmt.Errorf("nothing happens before time zero")
	}
	s.Steps = append(s.Steps, Step{At: at, Who: f[1], What: f[2], Args: f[3:]})
	return nil
}

func (s *Script) event(f []string) error {
	n, err := parseInt(f[0])
	if err != nil || n < 0 {
		return fmt.Errorf("an event is written: event NUMBER TIME WHO WHAT k=v…")
	}
	at, err := ParseTime(f[1])
	if err != nil {
		return err
	}
	values, err := eventFields.read(f[4:])
	e := Expect{N: n, At: at, Who: f[2], What: f[3], Fields: values}
	if n := len(s.Variants); n > 0 {
		s.Variants[n-1].Events = append(s.Variants[n-1].Events, e)
		return err
	}
	s.Events = append(s.Events, e)
	return err
}

func (s *Script) figure(f Figure) error {
	if n := len(s.Variants); n > 0 {
		s.Variants[n-1].Figures = append(s.Variants[n-1].Figures, f)
		return nil
	}
	s.Figures = append(s.Figures, f)
	return nil
}

// also begins a variant: "also without RULE… set NAME=VALUE…".
func (s *Script) also(f []string) error {
	var v Variant
	mode := ""
	for _, field := range f {
		switch {
		case field == "without" || field == "set":
			mode = field
		case mode == "without":
			r, err := protocol.ParseRule(field)
			if err != nil {
				return err
			}
			v.Change.Without |= r
		case mode == "set":
			sets, err := ParseSets([]string{field})
			if err != nil {
				return err
			}
			v.Change.Set = append(v.Change.Set, sets...)
		default:
			return fmt.Errorf("a variant is written: also without RULE… set NAME=VALUE…")
		}
	}
	if v.Change.Without == 0 && len(v.Change.Set) == 0 {
		return fmt.Errorf("a variant changes something")
	}
	s.Variants = append(s.Variants, v)
	return nil
}

// read reads k=v fields by their types.
func (p params) read(fields []string) ([]Value, error) {
	var values []Value
	for _, field := range fields {
		k, v, ok := strings.Cut(field, "=")
		check, known := p[k]
		if !ok || !known {
			return nil, fmt.Errorf("%q is not one of its parameters; there are %s", field, names(p))
		}
		if err := check(v); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		if slices.ContainsFunc(values, func(o Value) bool { return o.Name == k }) {
			return nil, fmt.Errorf("%s is given twice", k)
		}
		values = append(values, Value{k, v})
	}
	return values, nil
}

// check looks at what only the whole file can show.
func (s *Script) check() error {
	if err := s.checkParts(); err != nil {
		return err
	}
	for _, st := range s.Steps {
		if err := s.checkStep(st); err != nil {
			return fmt.Errorf("at %v: %s %s: %w", st.At, st.Who, st.What, err)
		}
	}
	for _, l := range s.Links {
		if !s.isMachine(l.Name) || !s.isMachine(l.Kind) {
			return fmt.Errorf("link %s %s: not two machines", l.Name, l.Kind)
		}
	}
	return nil
}

func (s *Script) checkStep(st Step) error {
	verbs := verbsOf[st.Who]
	if verbs == nil {
		if !s.isMachine(st.Who) {
			return fmt.Errorf("nobody is called %s", st.Who)
		}
		verbs = machineVerbs
		if st.Who == "store" {
			verbs = maps.Clone(machineVerbs)
			maps.Copy(verbs, actorVerbs["store"])
		}
		if a := s.Actor(st.Who); a != nil {
			verbs = maps.Clone(machineVerbs)
			maps.Copy(verbs, actorVerbs[a.Kind])
		}
	}
	args, ok := verbs[st.What]
	if !ok {
		return fmt.Errorf("unknown; there are %s", names(verbs))
	}
	return args.check(s, st.Args)
}

func (a argTypes) check(s *Script, args []string) error {
	if len(args) != len(a) && !(len(a) > 0 && a[len(a)-1].rest && len(args) >= len(a)) {
		return fmt.Errorf("takes %d arguments, not %d", len(a), len(args))
	}
	for i, arg := range args {
		if err := a[min(i, len(a)-1)].check(s, arg); err != nil {
			return err
		}
	}
	return nil
}

// isMachine reports whether there is a machine of that name.
func (s *Script) isMachine(name string) bool {
	if s.Actor(name) != nil || name == "store" || name == "flag" && s.Lock.Kind == "flag" {
		return true
	}
	for i := range s.Lock.Int("nodes", lockNodes[s.Lock.Kind]) {
		if name == fmt.Sprintf("n%d", i+1) {
			return true
		}
	}
	return false
}

func isName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 16
}

func names[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
