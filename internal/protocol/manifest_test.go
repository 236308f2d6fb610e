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

// TestACommitOnAManifestOfThenDropsNothing: the writer names what it knows, and
// the condition is what it saw.
func TestACommitOnAManifestOfThenDropsNothing(t *testing.T) {
	s := &objects{Manifest: Manifest{Token: 7, Nonce: "a"}}
	w := NewManifestWriter("job", fence.Grant{Token: 7, Nonce: "a"}, 0)
	then := s.etag()
	s.put(Manifest{Token: 12, Nonce: "b", Keys: []string{"12/chunk-1"}}, "")
	key := w.Key("chunk-1")
	m, err := w.Commit(s.Manifest, false, key)
	if err != nil {
		t.Fatal(err)
	}
	refused := s.put(m, w.IfMatch(then))
	if got := w.Committed(m, refused, s.Manifest, key); got != RewriteRefused || !slices.Equal(s.Keys, []string{"12/chunk-1"}) {
		t.Errorf("%v; the manifest names %v", got, s.Keys)
	}
	free := NewManifestWriter("job", fence.Grant{Token: 7, Nonce: "a"}, RuleFence)
	if m, err = free.Commit(s.Manifest, false, key); err != nil {
		t.Fatal(err)
	}
	if s.put(m, free.IfMatch(then)) || slices.Contains(s.Keys, "12/chunk-1") {
		t.Error("without the fence a late commit drops nothing: then this test shows nothing")
	}
}

// TestAWriterThatSawALaterGrantsManifestCommitsNothing: a lost commit that is
// settled after the next one has raised brings the ETag of that one's manifest.
func TestAWriterThatSawALaterGrantsManifestCommitsNothing(t *testing.T) {
	later := Manifest{Token: 12, Nonce: "b", Keys: []string{"7/chunk-1"}}
	w := NewManifestWriter("job", fence.Grant{Token: 7, Nonce: "a"}, 0)
	if got := w.Committed(Manifest{Token: 7, Nonce: "a"}, true, later, "7/chunk-1"); got != RewriteSettled {
		t.Errorf("the lost commit is %v", got)
	}
	if m, err := w.Commit(later, true, "7/chunk-2"); !errors.Is(err, fence.ErrStale) || slices.Contains(m.Keys, "7/chunk-2") {
		t.Errorf("%+v, %v", m, err)
	}
}

// author is a writer with what it saw last.
type author struct {
	*ManifestWriter
	grant  fence.Grant
	etag   string
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
			hands = append(hands, &author{ManifestWriter: NewManifestWriter("job", g, 0), grant: g, etag: s.etag()})
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

func (h *author) raise(t *rapid.T, s *objects) {
	if rapid.Bool().Draw(t, "reads first") {
		h.etag = s.etag()
	}
	if h.etag != s.etag() {
		return // what it read is not at hand any more; the next turn reads
	}
	m, err := h.Raise(s.Manifest)
	if err != nil {
		return
	}
	refused := s.put(m, h.IfMatch(h.etag))
	if rapid.Bool().Draw(t, "raise lost") {
		refused = s.put(m, h.IfMatch(h.etag)) // the try after it meets the first one
	}
	if h.Raised(m, refused, s.Manifest) != RewriteRefused {
		h.raised, h.etag = true, s.etag()
	}
}

func (h *author) commit(t *rapid.T, s *objects) {
	a := h.open
	if a == nil {
		key := h.Key("chunk-" + strconv.Itoa(len(h.named)+1))
		m, err := h.Commit(s.Manifest, h.etag == s.etag(), key)
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
