package protocol

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/stint-dev/stint/fence"
)

// objects are an object store with one manifest; its answers may be lost.
type objects struct {
	Manifest
	version int
}

func (s *objects) etag() string { return strconv.Itoa(s.version) }

func (s *objects) put(m Manifest, match string) (refused bool) {
	if match != "" && match != s.etag() {
		return true
	}
	s.Manifest, s.version = m, s.version+1
	return false
}

// TestARaiseKeepsWhatTheManifestNames, and gives way to a later grant and to
// another one of its token.
func TestARaiseKeepsWhatTheManifestNames(t *testing.T) {
	seen := Manifest{Token: 7, Nonce: "a", Keys: []string{"7/chunk-1"}}
	raise := func(g fence.Grant, without Rules) (Manifest, error) {
		return NewManifestWriter("job", g, without).Raise(seen)
	}
	m, err := raise(fence.Grant{Token: 12, Nonce: "b"}, 0)
	if err != nil || m.Token != 12 || m.Nonce != "b" || !slices.Equal(m.Keys, seen.Keys) {
		t.Errorf("token 12: %+v, %v", m, err)
	}
	if m, err = raise(fence.Grant{Token: 5, Nonce: "z"}, 0); !errors.Is(err, fence.ErrStale) || m.Token != 7 {
		t.Errorf("token 5: %+v, %v", m, err)
	}
	if _, err = raise(fence.Grant{Token: 7, Nonce: "z"}, 0); err == nil {
		t.Error("another grant of token 7 was let in")
	}
	for _, without := range []Rules{RuleNonce, RuleFence} {
		if _, err = raise(fence.Grant{Token: 7, Nonce: "z"}, without); err != nil {
			t.Errorf("without %v: %v", without, err)
		}
	}
}

// raisedBy is a writer whose raise of an empty manifest was carried out.
func raisedBy(t *testing.T, s *objects, g fence.Grant, without Rules) (w *ManifestWriter, etag string) {
	t.Helper()
	w = NewManifestWriter("job", g, without)
	m, err := w.Raise(s.Manifest)
	if err != nil || w.Raised(m, s.put(m, w.IfMatch(s.etag())), s.Manifest) != Rewritten {
		t.Fatalf("the raise to %+v: %v", m, err)
	}
	return w, s.etag()
}

// TestACommitOnAManifestOfThenDropsNothing: the writer names what it knows, and
// the condition is what it saw.
func TestACommitOnAManifestOfThenDropsNothing(t *testing.T) {
	for _, without := range []Rules{0, RuleFence} {
		s := &objects{}
		w, then := raisedBy(t, s, fence.Grant{Token: 7, Nonce: "a"}, without)
		s.put(Manifest{Token: 12, Nonce: "b", Keys: []string{"12/chunk-1"}}, "")
		key := w.Key("chunk-1")
		m, err := w.Commit(key)
		if err != nil {
			t.Fatal(err)
		}
		got := w.Committed(m, s.put(m, w.IfMatch(then)), s.Manifest, key)
		kept := slices.Equal(s.Keys, []string{"12/chunk-1"})
		if without == 0 && (got != RewriteRefused || !kept) {
			t.Errorf("%v; the manifest names %v", got, s.Keys)
		}
		if without != 0 && kept {
			t.Error("without the fence a late commit drops nothing: then this test shows nothing")
		}
	}
}

// TestAWriterThatSawALaterGrantsManifestCommitsNothing: a lost commit that is
// settled after the next one has raised brings the ETag of that one's manifest.
func TestAWriterThatSawALaterGrantsManifestCommitsNothing(t *testing.T) {
	later := Manifest{Token: 12, Nonce: "b", Keys: []string{"7/chunk-1"}}
	w, _ := raisedBy(t, &objects{}, fence.Grant{Token: 7, Nonce: "a"}, 0)
	if got := w.Committed(Manifest{Token: 7, Nonce: "a"}, true, later, "7/chunk-1"); got != RewriteSettled {
		t.Errorf("the lost commit is %v", got)
	}
	if m, err := w.Commit("7/chunk-2"); !errors.Is(err, fence.ErrStale) || slices.Contains(m.Keys, "7/chunk-2") {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestACommitAfterASettledOneNamesBoth: its answer was lost, and its ETag is that
// of the manifest that names it.
func TestACommitAfterASettledOneNamesBoth(t *testing.T) {
	s := &objects{}
	w, etag := raisedBy(t, s, fence.Grant{Token: 7, Nonce: "a"}, 0)
	m, err := w.Commit("7/chunk-1")
	if err != nil || s.put(m, w.IfMatch(etag)) || !s.put(m, w.IfMatch(etag)) || w.Committed(m, true, s.Manifest, "7/chunk-1") != RewriteSettled {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err = w.Commit("7/chunk-2"); err != nil || s.put(m, w.IfMatch(s.etag())) || !slices.Equal(s.Keys, []string{"7/chunk-1", "7/chunk-2"}) {
		t.Errorf("the manifest names %v, %v", s.Keys, err)
	}
}

// TestALostRaiseIsSettledByItsGrant, and not by its token: another may have that.
func TestALostRaiseIsSettledByItsGrant(t *testing.T) {
	for nonce, want := range map[string]Rewrite{"a": RewriteSettled, "z": RewriteRefused} {
		w := NewManifestWriter("job", fence.Grant{Token: 7, Nonce: "a"}, 0)
		put, err := w.Raise(Manifest{})
		if got := w.Raised(put, true, Manifest{Token: 7, Nonce: nonce}); err != nil || got != want {
			t.Errorf("the manifest is 7.%s: %v, %v", nonce, got, err)
		}
	}
}

// author is a writer with what it saw last.
type author struct {
	*ManifestWriter
	read   Manifest // before its raise
	of     string   // the ETag of that
	etag   string   // of what it goes on from
	raised bool
	open   *attempt // a commit whose answer was lost
	named  []string // that it was told are committed
}

type attempt struct {
	m     Manifest
	match string
	key   string
}

// TestNoManifestForgetsWhatItNamed: writers of rising tokens, each of which may
// sleep and wake at any point, and whose answers may be lost. What was named stays
// named, once; tokens never go down; a settled commit is really in there.
func TestNoManifestForgetsWhatItNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &objects{}
		var hands []*author
		for i := range rapid.IntRange(2, 4).Draw(t, "writers") {
			g := fence.Grant{Token: fence.Token(i + 1), Nonce: "n" + strconv.Itoa(i)}
			hands = append(hands, &author{ManifestWriter: NewManifestWriter("job", g, 0), of: s.etag()})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h := rapid.SampledFrom(hands).Draw(t, "who")
			before, fenceBefore := slices.Clone(s.Keys), s.Token
			if h.raised {
				h.commit(t, s)
			} else {
				h.raise(t, s)
			}
			if s.Token < fenceBefore || len(s.Keys) < len(before) || !slices.Equal(s.Keys[:len(before)], before) {
				t.Fatalf("%d named %v, and %d names %v", fenceBefore, before, s.Token, s.Keys)
			}
		}
		for _, h := range hands {
			for _, key := range h.named {
				if n := timesNamed(s.Keys, key); n != 1 {
					t.Fatalf("%s was committed, and is named %d times in %v", key, n, s.Keys)
				}
			}
		}
	})
}

func timesNamed(keys []string, key string) (n int) {
	for _, k := range keys {
		if k == key {
			n++
		}
	}
	return n
}

// raise reads, or goes on from what it has read some time ago.
func (h *author) raise(t *rapid.T, s *objects) {
	if rapid.Bool().Draw(t, "reads") {
		h.read, h.of = s.Manifest, s.etag()
		return
	}
	m, err := h.Raise(h.read)
	if err != nil {
		return
	}
	refused := s.put(m, h.IfMatch(h.of))
	if rapid.Bool().Draw(t, "raise lost") {
		refused = s.put(m, h.IfMatch(h.of)) // the try after it meets the first one
	}
	if h.Raised(m, refused, s.Manifest) != RewriteRefused {
		h.raised, h.etag = true, s.etag()
	}
}

func (h *author) commit(t *rapid.T, s *objects) {
	a := h.open
	if a == nil {
		key := h.Key("chunk-" + strconv.Itoa(len(h.named)+1))
		m, err := h.Commit(key)
		if err != nil {
			h.raised = false
			return
		}
		a = &attempt{m, h.IfMatch(h.etag), key}
	}
	refused := s.put(a.m, a.match)
	if h.open = nil; rapid.Bool().Draw(t, "commit lost") {
		h.open = a
		return
	}
	if h.Committed(a.m, refused, s.Manifest, a.key) != RewriteRefused {
		h.named, h.etag = append(h.named, a.key), s.etag()
	} else {
		h.raised = false // it was overtaken, and may only ask again
	}
}
