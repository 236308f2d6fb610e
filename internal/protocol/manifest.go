package protocol

import (
	"fmt"
	"slices"

	"github.com/stint-dev/stint/fence"
)

// Manifest is the one object of an object store that names the objects that
// count: what it does not name was never written. Rewriting it with If-Match on
// the ETag that its writer saw is the fence.
type Manifest struct {
	Token fence.Token
	Nonce string
	Keys  []string // in the order of their commits
}

// grant tells whether the manifest is that grant's.
func (m Manifest) grant(g fence.Grant) bool { return m.Token == g.Token && m.Nonce == g.Nonce }

// ManifestWriter decides what one grant writes to a manifest, and what the answer
// means (rule 22). It reads and writes nothing itself: who drives it puts the
// manifest that it gives, under the condition of IfMatch, and tells it the answer.
// Every answer may be lost, so a refused rewrite is judged by the manifest that
// stands. After one that was not refused in the end, the writer goes on from the
// ETag of that answer. It is not safe for concurrent use.
type ManifestWriter struct {
	name    string
	grant   fence.Grant
	without Rules    // fence, nonce
	seen    Manifest // what belongs to the ETag that it goes on from
}

// NewManifestWriter makes the writer of one grant of a name.
func NewManifestWriter(name string, g fence.Grant, without Rules) *ManifestWriter {
	return &ManifestWriter{name: name, grant: g, without: without}
}

// Key is where a part of the work goes: under the grant's own token, so that no
// writer ever overwrites what another one has named.
func (w *ManifestWriter) Key(part string) string { return fmt.Sprintf("%d/%s", w.grant.Token, part) }

// IfMatch is the condition of a rewrite: the ETag that the writer goes on from, or
// "" for none where the fence is left out. There always is one: where a name has no
// manifest yet, an empty one is put first, under If-None-Match.
func (w *ManifestWriter) IfMatch(seen string) string {
	if w.without.Has(RuleFence) {
		return ""
	}
	return seen
}

// Raise gives the manifest that raises the fence to the grant. It keeps what the
// one that was seen names. A manifest of a later grant, or of another one of the
// same token, is an error as fence.Row.CheckRaise gives it, and nothing is written.
func (w *ManifestWriter) Raise(seen Manifest) (Manifest, error) {
	if !w.without.Has(RuleFence) && (!w.without.Has(RuleNonce) || seen.Token != w.grant.Token) {
		row := fence.Row{Name: w.name, Fence: seen.Token, Nonce: seen.Nonce}
		if _, err := row.CheckRaise(w.grant); err != nil {
			return seen, err
		}
	}
	return Manifest{w.grant.Token, w.grant.Nonce, slices.Clone(seen.Keys)}, nil
}

// Commit gives the manifest that names one more key than the one that belongs to
// the ETag that the writer goes on from. If that is another grant's, since a commit
// was settled by it, the error is as fence.Row.CheckWrite gives it: If-Match would
// let the writer in.
func (w *ManifestWriter) Commit(key string) (Manifest, error) {
	if !w.without.Has(RuleFence) && !w.seen.grant(w.grant) {
		return w.seen, fence.Row{Name: w.name, Fence: w.seen.Token, Nonce: w.seen.Nonce}.CheckWrite(w.grant)
	}
	m := w.seen
	m.Keys = append(slices.Clone(m.Keys), key)
	return m, nil
}

// Rewrite is what became of a rewrite of the manifest.
type Rewrite uint8

// What a rewrite can come to.
const (
	Rewritten      Rewrite = iota
	RewriteSettled         // refused now, for it had been carried out before: an answer was lost
	RewriteRefused         // nothing was changed: somebody else was first
)

// Raised judges the answer to a rewrite by Raise, with the manifest that stands
// after it.
func (w *ManifestWriter) Raised(put Manifest, refused bool, stands Manifest) Rewrite {
	return w.judge(put, refused, stands, stands.grant(w.grant))
}

// Committed judges the answer to a rewrite by Commit. A key that the manifest
// names was committed, whoever has rewritten it since: nobody else has that key.
func (w *ManifestWriter) Committed(put Manifest, refused bool, stands Manifest, key string) Rewrite {
	return w.judge(put, refused, stands, slices.Contains(stands.Keys, key))
}

func (w *ManifestWriter) judge(put Manifest, refused bool, stands Manifest, done bool) Rewrite {
	switch {
	case !refused:
		w.seen = put
		return Rewritten
	case done:
		w.seen = stands
		return RewriteSettled
	}
	return RewriteRefused
}
