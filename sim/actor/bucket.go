package actor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
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
	mine   map[fence.Grant]store.Manifest // what each holder has written last; looked up only
	Lost   int                            // chunks that were committed, and that a later manifest has dropped
}

// NewBucket puts a bucket with an empty manifest on a machine.
func NewBucket(s *Stage, m *world.Machine, chunks, rows int) *Bucket {
	b := &Bucket{stage: s, m: m, b: store.NewBucket(), chunks: chunks, rows: rows, mine: map[fence.Grant]store.Manifest{}}
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
// one has, or another grant of the same token: two requests, and If-Match makes
// the second safe. A commit of the last holder between the two costs a further
// try.
func (b *Bucket) Raise(from *world.Machine, name string, g fence.Grant, reply func(Progress, error)) {
	read := false // the network may bring the answer twice
	b.at(from, func() func() {
		seen, m := b.progress()
		return func() {
			if read {
				return
			}
			read = true
			if err := b.mayRaise(name, m, g); err != nil {
				b.stage.log(from, world.Event{What: "raised-refused", Name: name, Token: uint64(g.Token), Fence: uint64(m.Token), Mark: "refused",
					Why: fmt.Sprintf("the manifest names %d", m.Token)})
				reply(seen, err)
				return
			}
			m.Token, m.Nonce = g.Token, g.Nonce
			put := false
			b.put(from, "raised", name, g, m, seen, 0, func(p Progress, err error) {
				switch {
				case put:
					return
				case errors.Is(err, store.ErrPrecondition):
					b.Raise(from, name, g, reply)
				default:
					reply(p, err)
				}
				put = true
			})
		}
	})
}

func (b *Bucket) mayRaise(name string, m store.Manifest, g fence.Grant) error {
	without := b.stage.Without
	if without.Has(protocol.RuleFence) || without.Has(protocol.RuleNonce) && m.Token == g.Token {
		return nil
	}
	_, err := fence.Row{Name: name, Fence: m.Token, Nonce: m.Nonce}.CheckRaise(g)
	return err
}

// put rewrites the manifest if its ETag is still the one that was seen. A commit
// whose first answer was lost is settled by membership: its key is in there.
func (b *Bucket) put(from *world.Machine, what, name string, g fence.Grant, m store.Manifest, seen Progress, chunk int, reply func(Progress, error)) {
	if b.stage.Without.Has(protocol.RuleFence) {
		seen.ETag = ""
	}
	b.at(from, func() func() {
		_, was := b.progress()
		etag, err := b.b.Put(store.ManifestKey, m.String(), seen.ETag, "")
		now, is := b.progress()
		e := world.Event{What: what, Name: name, Token: uint64(g.Token), Fence: uint64(now.Fence), Chunk: chunk, ETag: etag, Why: "If-Match " + seen.ETag}
		switch {
		case err != nil && chunk > 0 && slices.Contains(is.Keys, objectKey(g, chunk)):
			err = fence.ErrCommitted
			e.What, e.Why = "settled", "the manifest names it: the lost commit had been carried out"
		case err != nil && chunk == 0 && is.Token == g.Token && is.Nonce == g.Nonce:
			err, seen.Next = nil, now.Next
			e.What, e.Why = "settled", "the manifest names this grant: the lost raise had been carried out"
		case err != nil:
			e.What, e.Mark, e.ETag = what+"-refused", "refused", seen.ETag
			e.Why = fmt.Sprintf("If-Match %s: 412 Precondition Failed, it is %s", seen.ETag, etag)
		case chunk > 0:
			e.Rows = b.rows
		}
		if gone := dropped(was, m); err == nil && gone != nil {
			b.Lost += len(gone)
			e.Mark, e.Why = "lost", "no "+strings.Join(gone, ", ")+" any more"
		}
		if err == nil {
			b.mine[g] = m
		}
		b.stage.log(from, e)
		p := Progress{Fence: now.Fence, Owner: now.Owner, ETag: now.ETag, Seq: seen.Seq, Next: seen.Next}
		if chunk > 0 {
			p.Next = now.Next
		}
		return func() { reply(p, err) }
	})
}

// dropped are the keys that a manifest named and a later one does not.
func dropped(was, is store.Manifest) (gone []string) {
	for _, key := range was.Keys {
		if !slices.Contains(is.Keys, key) {
			gone = append(gone, key)
		}
	}
	return gone
}

func objectKey(g fence.Grant, chunk int) string { return fmt.Sprintf("%d/chunk-%d", g.Token, chunk) }

// Job is what the manifest says, as a row of a table would.
func (b *Bucket) Job(name string) store.Job {
	p, m := b.progress()
	j := store.Job{Row: fence.Row{Name: name, Fence: m.Token, Nonce: m.Nonce, Owner: m.Token, State: fence.Running}, Indexed: true, Chunks: make([]int, b.chunks)}
	for _, key := range m.Keys {
		_, chunk, _ := strings.Cut(key, "-")
		if n, err := strconv.Atoi(chunk); err == nil && n >= 1 && n <= b.chunks {
			j.Chunks[n-1]++
		}
	}
	if p.Next == 0 {
		j.State, j.Indexed = fence.Done, false
	}
	return j
}

// Mark is Resource's: the manifest is the marker.
func (b *Bucket) Mark(from *world.Machine, _ string, _ fence.Grant, reply func(error)) {
	b.at(from, func() func() { return func() { reply(nil) } })
}

// Write puts the chunk under a key of its own token, and commits it by naming it
// in the manifest.
func (b *Bucket) Write(from *world.Machine, w Write, reply func(Progress, error)) {
	key := objectKey(w.Grant, w.Chunk)
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
	m, etag, err := b.b.Manifest()
	if err != nil || etag != w.ETag {
		m = b.mine[w.Grant]
	}
	m.Keys = append(slices.Clone(m.Keys), key)
	b.put(from, "write", w.Name, w.Grant, m, Progress{ETag: w.ETag, Seq: w.Seq}, w.Chunk, reply)
}

// Finish is Resource's: a manifest that names every chunk is the end.
func (b *Bucket) Finish(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	b.at(from, func() func() {
		p, _ := b.progress()
		b.stage.log(from, world.Event{What: "done", Name: name, Token: uint64(g.Token), Fence: uint64(p.Fence), ETag: p.ETag})
		return func() { reply(nil) }
	})
}
