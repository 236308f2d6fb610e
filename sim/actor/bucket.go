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
// with If-Match on the ETag that its writer last saw. What is written, and what an
// answer means, is decided by protocol.ManifestWriter.
type Bucket struct {
	stage   *Stage
	m       *world.Machine
	b       *store.Bucket
	chunks  int
	rows    int
	writers map[fence.Grant]*protocol.ManifestWriter // of each holder; looked up only
	Lost    int                                      // chunks that were committed, and that a later manifest has dropped
}

// NewBucket puts a bucket with an empty manifest on a machine.
func NewBucket(s *Stage, m *world.Machine, chunks, rows int) *Bucket {
	b := &Bucket{stage: s, m: m, b: store.NewBucket(), chunks: chunks, rows: rows, writers: map[fence.Grant]*protocol.ManifestWriter{}}
	if _, err := b.b.Put(store.ManifestKey, store.Manifest{}.String(), "", "*"); err != nil {
		panic(err) // an empty bucket has no key
	}
	return b
}

func (b *Bucket) writer(name string, g fence.Grant) *protocol.ManifestWriter {
	w := b.writers[g]
	if w == nil {
		w = protocol.NewManifestWriter(name, g, b.stage.Without)
		b.writers[g] = w
	}
	return w
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
			next, err := b.writer(name, g).Raise(protocol.Manifest(m))
			if err != nil {
				b.stage.log(from, world.Event{What: "raised-refused", Name: name, Token: uint64(g.Token), Fence: uint64(m.Token), Mark: "refused",
					Why: fmt.Sprintf("the manifest names %d", m.Token)})
				reply(seen, err)
				return
			}
			put := false
			b.put(from, "raised", name, g, next, seen, 0, func(p Progress, err error) {
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

// put rewrites the manifest if its ETag is still the one that was seen, and has the
// answer judged.
func (b *Bucket) put(from *world.Machine, what, name string, g fence.Grant, next protocol.Manifest, seen Progress, chunk int, reply func(Progress, error)) {
	w := b.writer(name, g)
	b.at(from, func() func() {
		_, was := b.progress()
		match := w.IfMatch(seen.ETag)
		etag, err := b.b.Put(store.ManifestKey, store.Manifest(next).String(), match, "")
		now, is := b.progress()
		e := world.Event{What: what, Name: name, Token: uint64(g.Token), Fence: uint64(now.Fence), Chunk: chunk, ETag: etag, Why: "If-Match " + match}
		switch b.judge(w, next, err != nil, is, chunk) {
		case protocol.RewriteSettled:
			e.What, e.Why = "settled", "the manifest names it: the lost commit had been carried out"
			if err = fence.ErrCommitted; chunk == 0 {
				err, seen.Next = nil, now.Next
				e.Why = "the manifest names this grant: the lost raise had been carried out"
			}
		case protocol.RewriteRefused:
			e.What, e.Mark, e.ETag = what+"-refused", "refused", match
			e.Why = fmt.Sprintf("If-Match %s: 412 Precondition Failed, it is %s", match, etag)
		case protocol.Rewritten:
			if chunk > 0 {
				e.Rows = b.rows
			}
		}
		if gone := dropped(was, next); err == nil && gone != nil {
			b.Lost += len(gone)
			e.Mark, e.Why = "lost", "no "+strings.Join(gone, ", ")+" any more"
		}
		b.stage.log(from, e)
		p := Progress{Fence: now.Fence, Owner: now.Owner, ETag: now.ETag, Seq: seen.Seq, Next: seen.Next}
		if chunk > 0 {
			p.Next = now.Next
		}
		return func() { reply(p, err) }
	})
}

func (b *Bucket) judge(w *protocol.ManifestWriter, next protocol.Manifest, refused bool, is store.Manifest, chunk int) protocol.Rewrite {
	if chunk == 0 {
		return w.Raised(next, refused, protocol.Manifest(is))
	}
	return w.Committed(next, refused, protocol.Manifest(is), w.Key(part(chunk)))
}

// dropped are the keys that a manifest named and a later one does not.
func dropped(was store.Manifest, is protocol.Manifest) (gone []string) {
	for _, key := range was.Keys {
		if !slices.Contains(is.Keys, key) {
			gone = append(gone, key)
		}
	}
	return gone
}

func part(chunk int) string { return fmt.Sprintf("chunk-%d", chunk) }

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
	key := b.writer(w.Name, w.Grant).Key(part(w.Chunk))
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
	next, err := b.writer(w.Name, w.Grant).Commit(key)
	if err != nil {
		b.stage.log(from, world.Event{What: "write-refused", Name: w.Name, Token: uint64(w.Grant.Token), Fence: uint64(next.Token), Chunk: w.Chunk, Mark: "refused",
			Why: fmt.Sprintf("the manifest names %d", next.Token)})
		reply(Progress{Fence: next.Token, ETag: w.ETag, Seq: w.Seq}, err)
		return
	}
	b.put(from, "write", w.Name, w.Grant, next, Progress{ETag: w.ETag, Seq: w.Seq}, w.Chunk, reply)
}

// Finish is Resource's: a manifest that names every chunk is the end.
func (b *Bucket) Finish(from *world.Machine, name string, g fence.Grant, reply func(error)) {
	b.at(from, func() func() {
		p, _ := b.progress()
		b.stage.log(from, world.Event{What: "done", Name: name, Token: uint64(g.Token), Fence: uint64(p.Fence), ETag: p.ETag})
		return func() { reply(nil) }
	})
}
