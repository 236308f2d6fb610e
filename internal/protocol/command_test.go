package protocol

import (
	"bytes"
	"testing"

	"github.com/stint-dev/stint/fence"
)

func FuzzCommands(f *testing.F) {
	f.Add(Command{Op: CmdCreate, ID: 7, Term: 3, Lease: 1 << 63, Length: 10 * sec, Name: "job", Grant: fence.Grant{Nonce: "a-1"}, Holder: "web"}.Append(nil))
	f.Add(Command{Op: CmdPass, Name: "e/a", Key: "e/b", Grant: fence.Grant{Token: 12, Nonce: "a-1"}}.Append(nil))
	f.Add(Command{Op: CmdCheckpoint, Length: -1, By: -5}.Append(nil))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCommand(b)
		if err != nil {
			return
		}
		again, err := ParseCommand(c.Append(nil))
		if err != nil || again != c {
			t.Fatalf("%+v is written and read as %+v (%v)", c, again, err)
		}
		if len(b) < len(c.Append(nil)) {
			t.Fatalf("%d bytes grow to %d", len(b), len(c.Append(nil)))
		}
		_ = c.String()
		// No entry of a log may stop a node.
		l := NewLessor(LessorConfig{})
		l.Step(0, Promoted{1})
		l.Step(0, Applied{1, Command{Op: CmdCreate, Name: "e/a", Length: sec, Grant: fence.Grant{Nonce: "a-1"}}})
		l.Step(0, Applied{c.Term, c})
		l.Step(at(sec), Tick{})
	})
}

func FuzzSnapshots(f *testing.F) {
	s := newService(nil, LessorConfig{})
	s.step(Ask{ID: 1, Op: OpAcquire, Name: "job", Nonce: "a-1", Length: 10 * sec})
	s.step(Ask{ID: 2, Op: OpGrant, Lease: 7, Length: 10 * sec})
	s.step(Ask{ID: 3, Op: OpCreate, Name: "e/a", Nonce: "b-1", Lease: 7})
	s.step(Ask{ID: 4, Op: OpNumber, Name: "e/a", Grant: s.l.key("e/a").grant})
	f.Add(s.l.Marshal())
	f.Add([]byte{snapshotVersion, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := RestoreLessor(LessorConfig{}, 0, b)
		if err != nil {
			return
		}
		b = l.Marshal()
		again, err := RestoreLessor(LessorConfig{}, 0, b)
		if err != nil || !bytes.Equal(again.Marshal(), b) {
			t.Fatalf("a snapshot of a snapshot: %v", err)
		}
		l.Step(0, Promoted{1})
		l.Step(at(100*sec), Tick{})
		for _, e := range append([]lease(nil), l.leases...) {
			l.Step(at(100*sec), Applied{1, Command{Op: CmdExpire, Term: 1, Lease: e.id}})
		}
		if len(l.leases) > 0 || len(l.keys) > 0 {
			t.Fatalf("%d leases and %d keys outlive all expiries", len(l.leases), len(l.keys))
		}
	})
}
