package actor

import (
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// NoLock lets everybody in, at once: what remains of a lock service when there
// is none.
type NoLock struct{ token fence.Token }

// Call is Lock's.
func (n *NoLock) Call(from *world.Machine, r Request, answer func(protocol.Answer)) {
	g := r.Grant
	if r.Op == protocol.OpAcquire {
		n.token++
		g = authority.Grant{Grant: fence.Grant{Token: n.token, Nonce: r.Ask.Nonce}, Name: r.Ask.Name, Length: r.Ask.Length}
	}
	from.Deliver(world.OrderMessage, func() { answer(protocol.Answer{Grant: g}) })
}
