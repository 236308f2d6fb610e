package actor

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

func uint64String(t fence.Token) string { return strconv.FormatInt(int64(t), 10) }

// Bucket is an object store on a machine: the fence is a manifest, rewritten
// with If-Match on the ETag that its writer last saw.
type Bucket struct {
	stage  *Stage
	m      *world.Machine
	b      *store.Bucket
	chunks int
	rows   int
}

// NewBucket puts a bucket with an empty manifest on a machine.
func NewBucket(s *Stage, m *world.Machine, chunks, rows int) *Bucket {
	b := &Bucket{stage: s, m: m, b: store.NewBucket(), chunks: chunks, rows: rows}
	if _, err := b.b.Put(store.ManifestKey, store.Manifest{}.String(), "", "*"); err != nil {
		panic(err) // an empty bucket has no key
	}
	return b
}

// Objects is the bucket itself.
func (b *Bucket) Objects() *store.Bucket { return b.b }

func (b *Bucket) at(from *world.Machine, f func() (reply func())) {
	b.stage.World.Net.Call(from, b.m, func(answer func(func())) { answer(f()) })
}

func (b *Bucket) progress() (Progress, store.Manifest) {
	m, etag, err := b.b.Manifest()
	if err != nil {
		panic(err) // nothing deletes the manifest
	}
	next := len(m.Keys) + 1
	if next > b.chunks {
		next = 0
	}
	return Progress{Fence: m.Token, Next: next, ETag: etag, Owner: m.Token}, m
}

// Read is Resource's.
func (b *Bucket) Read(from *world.Machine, _ string, reply func(Progress)) {
	b.at(from, func() func() {
		p, _ := b.progress()
		return func() { reply(p) }
	})
}

// Raise reads the manifest and rewrites it with the new token, unless a later
// one has: two requests, and If-Match makes the second safe.
func (b *Bucket) Raise(from *world.Machine, name string, g fence.Grant, reply func(Progress, error)) {
	b.at(from, func() func() {
		seen, m := b.progress()
		return func() {
			if m.Token > g.Token {
				b.stage.log(from, world.Event{What: "raised-refused", Name: name, Token: uint64(g.Token), Fence: uint64(m.Token), Mark: "refused",
					Why: fmt.Sprintf("the manifest names %d", m.Token)})
				reply(seen, &fence.StaleError{Name: name, Presented: g.Token, Fence: m.Token, AtRaise: true})
				return
			}
			m.Token, m.Nonce = g.Token, g.Nonce
			b.put(from, "raised", name, g, m, seen, 0, reply)
		}
	})
}

// put rewrites the manifest if its ETag is still the one that was seen.
func (b *Bucket) put(from *world.Machine, what, name string, g fence.Grant, m store.Manifest, seen Progress, chunk int, reply func(Progress, error)) {
	b.at(from, func() func() {
		etag, err := b.b.Put(store.ManifestKey, m.String(), seen.ETag, "")
		now, _ := b.progress()
		e := world.Event{What: what, Name: name, Token: uint64(g.Token), Fence: uint64(now.Fence), Chunk: chunk, ETag: etag, Why: "If-Match " + seen.ETag}
		if err != nil {
			e.What, e.Mark, e.ETag = what+"-refused", "refused", seen.ETag
			e.Why = fmt.Sprintf("If-Match %s: 412 Precondition Failed, it is %s", seen.ETag, etag)
		} else if chunk > 0 {
			e.Rows = b.rows
		}
		b.stage.log(from, e)
		seen.ETag = now.ETag
		seen.Fence = now.Fence
		if chunk > 0 {
			seen.Next = now.Next
		}
		return func() { reply(seen, err) }
	})
}

// Mark is Resource's: the manifest is the marker.
func (b *Bucket) Mark(from *world.Machine, _ string, _ fence.Grant, reply func(error)) {
	b.at(from, func() func() { return func() { reply(nil) } })
}

// Write puts the chunk under a key of its own token, and commits it by naming it
// in the manifest.
func (b *Bucket) Write(from *world.Machine, w Write, reply func(Progress, error)) {
	key := fmt.Sprintf("%d/chunk-%d", w.Grant.Token, w.Chunk)
	b.at(from, func() func() {
		_, err := b.b.Put(key, w.Mark, "", "*")
		if errors.Is(err, store.ErrPrecondition) {
			err = nil // by an earlier try: the key carries the token and the mark
		}
		b.stage.log(from, world.Event{What: "object", Name: key, Token: uint64(w.Grant.Token), Chunk: w.Chunk})
		return func() {
			if err != nil {
				reply(Progress{}, err)
				return
			}
			b.commit(from, w, key, reply)
		}
	})
}

func (b *Bucket) commit(from *world.Machine, w Write, key string, reply func(Progress, error)) {
	// The writer knows the manifest that it wrote last: what it holds in memory
	// is what it names, and If-Match refuses it if anybody else came between.
	m, ok := b.known(w)
	if !ok {
		b.put(from, "write", w.Name, w.Grant, store.Manifest{Token: w.Grant.Token, Nonce: w.Grant.Nonce}, Progress{ETag: w.ETag}, w.Chunk, reply)
		return
	}
	m.Keys = append(m.Keys, key)
	b.put(from, "write", w.Name, w.Grant, m, Progress{ETag: w.ETag, Seq: w.Seq}, w.Chunk, reply)
}

// known is the manifest of the ETag that the writer holds, if it still stands.
// When it does not, the body does not matter: the write will be refused.
func (b *Bucket) known(w Write) (store.Manifest, bool) {
	m, etag, err := b.b.Manifest()
	return m, err == nil && etag == w.ETag
}

// Finish is Resource's: a manifest that names every chunk is the end.
func (b *Bucket) Finish(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	b.at(from, func() func() {
		p, _ := b.progress()
		b.stage.log(from, world.Event{What: "done", Name: name, Token: uint64(g.Token), Fence: uint64(p.Fence), ETag: p.ETag})
		return func() { reply(nil) }
	})
}
