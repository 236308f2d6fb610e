package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
)

// CommandOp is what a command of the lock service's log does.
type CommandOp uint8

// The commands. All but CmdGrant, CmdCheckpoint and the ones that change nothing
// take a revision; a key's token is the revision that created it.
const (
	CmdGrant      CommandOp = iota + 1 // a lease without a key
	CmdCreate                          // a key, if its name is free; under its own lease where Lease is 0
	CmdDelete                          // the key of Grant's token; of any, where it is zero
	CmdRevoke                          // a lease and all its keys, because somebody asked
	CmdExpire                          // the same, because the leader of Term found its deadline passed
	CmdCheckpoint                      // what is left of a lease; nothing left to know where Length is 0
	CmdBump                            // the revision, by By
	CmdPass                            // delete the first key of an election, and put Key before all others
	CmdNumber                          // a new token for the first key of an election, and a floor at it
)

// Command is an entry of the lock service's log.
type Command struct {
	Op     CommandOp
	ID     uint64 // of the request; 0: nobody waits for the answer
	Term   uint64 // of the leader who proposed it
	Lease  uint64
	Length time.Duration
	Name   string      // the key
	Key    string      // of CmdPass: the heir's
	Grant  fence.Grant // the one that the key must have; of CmdCreate only the nonce
	Holder string
	By     int64 // of CmdBump; of CmdCheckpoint its number
}

// Append appends the command's bytes to b.
func (c Command) Append(b []byte) []byte {
	b = append(b, byte(c.Op))
	b = binary.AppendUvarint(b, c.ID)
	b = binary.AppendUvarint(b, c.Term)
	b = binary.AppendUvarint(b, c.Lease)
	b = binary.AppendVarint(b, int64(c.Length))
	b = appendString(b, c.Name)
	b = appendString(b, c.Key)
	b = binary.AppendVarint(b, int64(c.Grant.Token))
	b = appendString(b, c.Grant.Nonce)
	b = appendString(b, c.Holder)
	return binary.AppendVarint(b, c.By)
}

// ParseCommand reads what Append has written.
func ParseCommand(b []byte) (Command, error) {
	r := reader{b: b}
	c := Command{
		Op: CommandOp(r.byte()), ID: r.uint(), Term: r.uint(), Lease: r.uint(), Length: time.Duration(r.int()),
		Name: r.string(), Key: r.string(), Grant: fence.Grant{Token: fence.Token(r.int()), Nonce: r.string()},
		Holder: r.string(), By: r.int(),
	}
	if r.bad || len(r.b) > 0 {
		return Command{}, fmt.Errorf("protocol: %d bytes are not a command of the log", len(b))
	}
	return c, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes values from the front of b; bad says that one was not there.
type reader struct {
	b   []byte
	bad bool
}

var errBytes = errors.New("protocol: the bytes are cut off or damaged")

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.take(-1)
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.take(-1)
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) string() string {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.take(-1)
		return ""
	}
	return string(r.take(int(n)))
}
