package protocol

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

const snapshotVersion = 1

// Marshal is a snapshot of what the log says: the same bytes on every node that
// has applied the same entries. Deadlines are not in it.
func (l *Lessor) Marshal() []byte {
	b := []byte{snapshotVersion}
	b = binary.AppendVarint(b, l.rev)
	b = binary.AppendUvarint(b, uint64(len(l.leases)))
	for _, e := range l.leases {
		b = binary.AppendUvarint(b, e.id)
		b = binary.AppendVarint(b, int64(e.length))
		b = binary.AppendVarint(b, int64(e.left))
		b = appendString(b, e.key)
	}
	b = binary.AppendUvarint(b, uint64(len(l.keys)))
	for _, e := range l.keys {
		b = appendString(b, e.name)
		b = binary.AppendVarint(b, int64(e.grant.Token))
		b = appendString(b, e.grant.Nonce)
		b = binary.AppendVarint(b, int64(e.token))
		ahead := byte(0)
		if e.ahead {
			ahead = 1
		}
		b = append(b, ahead)
		b = binary.AppendUvarint(b, e.lease)
		b = appendString(b, e.holder)
	}
	b = binary.AppendUvarint(b, uint64(len(l.floors)))
	for _, f := range l.floors {
		b = appendString(b, f.election)
		b = binary.AppendVarint(b, int64(f.token))
	}
	return b
}

// RestoreLessor makes a lessor from a snapshot: on a node that was behind, or
// that starts again. It does not lead.
func RestoreLessor(cfg LessorConfig, now Instant, snapshot []byte) (*Lessor, error) {
	l := NewLessor(cfg)
	l.now = now
	r := reader{b: snapshot}
	r.bad = r.byte() != snapshotVersion
	l.rev = r.int()
	for n := r.uint(); n > 0 && !r.bad; n-- {
		e := lease{id: r.uint(), length: time.Duration(r.int()), left: time.Duration(r.int()), key: r.string()}
		e.deadline = now.Add(e.length)
		l.leases = append(l.leases, e)
	}
	for n := r.uint(); n > 0 && !r.bad; n-- {
		l.keys = append(l.keys, key{
			name: r.string(), grant: fence.Grant{Token: fence.Token(r.int()), Nonce: r.string()},
			token: fence.Token(r.int()), ahead: r.byte() == 1, lease: r.uint(), holder: r.string(),
		})
	}
	for n := r.uint(); n > 0 && !r.bad; n-- {
		l.floors = append(l.floors, floor{r.string(), fence.Token(r.int())})
	}
	if r.bad || len(r.b) > 0 || !l.consistent() {
		return nil, errBytes
	}
	return l, nil
}

// consistent reports whether the tables fit each other: in order, and every key
// under a lease that exists.
func (l *Lessor) consistent() bool {
	for i, e := range l.leases {
		if i > 0 && l.leases[i-1].id >= e.id || !l.owns(e) {
			return false
		}
	}
	for i, e := range l.keys {
		if i > 0 && l.keys[i-1].name >= e.name || l.lease(e.lease) == nil {
			return false
		}
	}
	return true
}

// owns reports whether the one key of a lease is there, if it was made with one.
func (l *Lessor) owns(e lease) bool {
	k := l.key(e.key)
	return (e.key == "") == (e.id&ownLease == 0) && (e.key == "" || k != nil && k.lease == e.id)
}

// RecoverLessor makes the lessor of a lock service that an operator has restored
// from a backup. The tokens given out since the backup are forgotten, so the
// revision moves on by bump, over all of them; leases and keys are dropped, since
// their holders have long gone on without them.
//
// given is the highest revision that anybody knows of: of the data that the
// restore replaces, of the fences in the stores, of a restore before this one. A
// bump counts from the backup, so the same bump after a second restore from an
// older one would hand out the first one's tokens again: one that does not lead
// beyond given is refused.
func RecoverLessor(cfg LessorConfig, snapshot []byte, bump, given int64) (*Lessor, error) {
	l, err := RestoreLessor(cfg, 0, snapshot)
	if err != nil {
		return nil, err
	}
	l.leases, l.keys = nil, nil
	if cfg.Without.Has(RuleBump) {
		return l, nil
	}
	if l.rev+bump < given {
		return nil, fmt.Errorf("the backup's revision %d with a bump of %d is %d, and tokens up to %d were given out: the bump has to be %d at the least",
			l.rev, bump, l.rev+bump, given, given-l.rev)
	}
	l.rev += bump
	return l, nil
}
