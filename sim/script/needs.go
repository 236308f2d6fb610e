package script

import (
	"fmt"
	"slices"
	"strings"
)

// need is what an actor cannot be without.
type need struct{ locks, stores []string }

// anything stands for every kind.
var anything []string

var needs = map[string]need{
	"worker":    {[]string{"raft", "cache", "kv", "none"}, []string{"table", "ledger", "objects", "none"}},
	"observer":  {[]string{"item"}, anything},
	"candidate": {[]string{"raft"}, anything},
	"sweeper":   {[]string{"raft", "cache"}, []string{"table"}},
	"writer":    {[]string{"flag"}, []string{"table"}},
	"client":    {[]string{"redlock"}, anything},
	"taker":     {[]string{"raft", "cache", "none"}, anything},
	"reader":    {[]string{"raft", "cache"}, []string{"pages"}},
	"editor":    {[]string{"raft", "cache"}, []string{"pages"}},
	"payer":     {[]string{"raft", "cache"}, []string{"records"}},
	"crowd":     {[]string{"raft", "cache"}, []string{"table"}},
}

// lockVerbs are what can be done to each kind of lock service.
var lockVerbs = map[string][]string{
	"raft": {"use", "lead", "break", "save", "restore"}, "none": {"use", "lead", "break", "save", "restore"},
	"cache": {"use", "failover"}, "item": {"expire"},
	"kv": {"use", "break", "save", "restore", "hold-create", "hold-keep-alive"},
}

// checkParts looks at who takes part with what.
func (s *Script) checkParts() error {
	kind := func(p Part) string {
		if p.Kind == "" {
			return "none"
		}
		return p.Kind
	}
	for _, a := range s.Actors {
		n := needs[a.Kind]
		if n.locks != nil && !slices.Contains(n.locks, kind(s.Lock)) {
			return fmt.Errorf("%s: a %s needs another lock than %s; it goes with %s", a.Name, a.Kind, kind(s.Lock), strings.Join(n.locks, ", "))
		}
		if n.stores != nil && !slices.Contains(n.stores, kind(s.Store)) {
			return fmt.Errorf("%s: a %s needs another store than %s; it goes with %s", a.Name, a.Kind, kind(s.Store), strings.Join(n.stores, ", "))
		}
		if err := s.checkActor(a); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	if begun, chunks := s.Store.Int("begun", 0), s.Store.Int("chunks", 10); begun > chunks {
		return fmt.Errorf("the store: begun=%d of %d chunks", begun, chunks)
	}
	for _, st := range s.Steps {
		if st.Who == "lock" && !slices.Contains(lockVerbs[kind(s.Lock)], st.What) {
			return fmt.Errorf("at %v: the lock %s cannot %s; it can %s", st.At, kind(s.Lock), st.What, strings.Join(lockVerbs[kind(s.Lock)], ", "))
		}
		if st.Who == "store" && st.What == "bar" && s.Store.Kind != "table" {
			return fmt.Errorf("at %v: only a table has a fence to bar", st.At)
		}
	}
	return nil
}

func (s *Script) checkActor(a Part) error {
	nodes := s.Lock.Int("nodes", lockNodes[s.Lock.Kind])
	masters := a.Text("masters")
	for i, c := range masters {
		if c < '1' || c > '9' || int(c-'0') > nodes || strings.ContainsRune(masters[:i], c) {
			return fmt.Errorf("masters=%s: digits from 1 to %d, each once", masters, nodes)
		}
	}
	if a.Kind == "observer" && a.Has("ttl") {
		if err := s.checkTimes(a.Duration("ttl", 0)); err != nil {
			return err
		}
	}
	if a.Kind == "taker" {
		order := strings.Split(a.Text("order"), "-")
		if len(order) < 2 || slices.Contains(order, "") {
			return fmt.Errorf("order=%s: names joined by hyphens, as in x-y", a.Text("order"))
		}
	}
	if a.Int("count", 1) > 1 && a.Kind == "candidate" {
		for _, other := range s.Actors {
			if rest, ok := strings.CutPrefix(other.Name, a.Name); ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
				return fmt.Errorf("its %d candidates are called %s1, %s2 and so on: %s is taken", a.Int("count", 1), a.Name, a.Name, other.Name)
			}
		}
	}
	return nil
}
