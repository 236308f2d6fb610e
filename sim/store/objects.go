package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// Errors of the bucket, by their HTTP status.
var (
	ErrPrecondition = errors.New("412 Precondition Failed")
	ErrNoKey        = errors.New("404 Not Found")
)

// Object is a stored body. The ETag counts the versions of its key: E0, E1, …
type Object struct {
	ETag string
	Body string
}

// Bucket is an object store that compares ETags, and nothing else.
type Bucket struct {
	objects  map[string]Object
	versions map[string]int
}

// NewBucket makes an empty bucket.
func NewBucket() *Bucket { return &Bucket{objects: map[string]Object{}, versions: map[string]int{}} }

// Get reads an object.
func (b *Bucket) Get(key string) (Object, error) {
	if o, ok := b.objects[key]; ok {
		return o, nil
	}
	return Object{}, fmt.Errorf("%s: %w", key, ErrNoKey)
}

// Put writes an object. ifMatch "" asks for nothing, "*" in ifNoneMatch that the
// key does not exist yet.
func (b *Bucket) Put(key, body, ifMatch string, ifNoneMatch string) (string, error) {
	old, exists := b.objects[key]
	if ifNoneMatch == "*" && exists {
		return old.ETag, fmt.Errorf("%s: %w: If-None-Match: *, and the key exists with ETag %s", key, ErrPrecondition, old.ETag)
	}
	if ifMatch != "" && (!exists || old.ETag != ifMatch) {
		return old.ETag, fmt.Errorf("%s: %w: If-Match: %s, and the ETag is %s", key, ErrPrecondition, ifMatch, old.ETag)
	}
	o := Object{ETag: fmt.Sprintf("E%d", b.versions[key]), Body: body}
	b.versions[key]++
	b.objects[key] = o
	return o.ETag, nil
}

// Delete removes a key; the count of its versions stays.
func (b *Bucket) Delete(key string) { delete(b.objects, key) }

// Keys lists the keys in order.
func (b *Bucket) Keys() []string { return slices.Sorted(maps.Keys(b.objects)) }

// Manifest names the objects that count: what it does not name was never
// written, as far as a reader can tell. Rewriting it with If-Match is the fence.
type Manifest struct {
	Token fence.Token
	Nonce string
	Keys  []string // of the chunks, in the order of their commits
}

// ManifestKey is where it lies.
const ManifestKey = "manifest"

// String is the body of the manifest's object.
func (m Manifest) String() string {
	return fmt.Sprintf("%d.%s\n%s", m.Token, m.Nonce, strings.Join(m.Keys, "\n"))
}

// ParseManifest reads a body.
func ParseManifest(body string) (Manifest, error) {
	head, rest, _ := strings.Cut(body, "\n")
	var m Manifest
	number, nonce, ok := strings.Cut(head, ".")
	if _, err := fmt.Sscanf(number, "%d", &m.Token); err != nil || !ok {
		return m, fmt.Errorf("manifest: %q is not a grant", head)
	}
	m.Nonce = nonce
	if rest != "" {
		m.Keys = strings.Split(rest, "\n")
	}
	return m, nil
}

// Manifest reads the manifest with its ETag.
func (b *Bucket) Manifest() (Manifest, string, error) {
	o, err := b.Get(ManifestKey)
	if err != nil {
		return Manifest{}, "", err
	}
	m, err := ParseManifest(o.Body)
	return m, o.ETag, err
}

// KeyToken reads the token that a chunk's key begins with: "12/chunk-2".
func KeyToken(key string) (t fence.Token) {
	if _, err := fmt.Sscanf(key, "%d/", &t); err != nil {
		return fence.MaxToken // not one of ours: never removed
	}
	return t
}

// Vacuum removes the objects that the manifest does not name, of tokens below
// its own: a higher one belongs to somebody who is about to commit it.
func (b *Bucket) Vacuum(token func(key string) fence.Token) (gone []string) {
	m, _, err := b.Manifest()
	if err != nil {
		return nil
	}
	for _, key := range b.Keys() {
		if key == ManifestKey || slices.Contains(m.Keys, key) || token(key) >= m.Token {
			continue
		}
		b.Delete(key)
		gone = append(gone, key)
	}
	return gone
}
