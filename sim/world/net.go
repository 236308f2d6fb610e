package world

import (
	"math/rand/v2"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Link is what the way from one machine to another does to messages. The zero
// Link delivers each at once, in order.
type Link struct {
	Cut bool // nothing arrives, not even what is under way

	Delay  time.Duration // of every message
	Jitter time.Duration // a random part on top, evenly spread
	// Rare events, in millionths.
	Loss    int
	Twice   int // delivered a second time, with a delay of its own
	Reorder int // may overtake: only these leave their place in the order of sending
}

// Net carries messages. Every direction between two machines is a link of its
// own. A message takes its link's settings when it is sent, but a cut takes
// effect at once.
type Net struct {
	// Default is the link between machines that have none of their own.
	Default Link

	// Sent, Lost, Doubled and Delivered count messages.
	Sent, Lost, Doubled, Delivered uint64

	w     *World
	links [][]*link // by sender and receiver
}

type link struct {
	own  *Link         // nil: Default
	last time.Duration // when the last message that kept its place arrives
	rng  *rand.Rand    // of this link alone, see World.Rand
}

func newNet(w *World) *Net { return &Net{w: w} }

// link makes the links as they are used: a thousand machines that talk to three
// need no million.
func (n *Net) link(from, to *Machine) *link {
	for len(n.links) <= from.index {
		n.links = append(n.links, nil)
	}
	row := n.links[from.index]
	for len(row) <= to.index {
		row = append(row, nil)
	}
	n.links[from.index] = row
	if row[to.index] == nil {
		row[to.index] = &link{rng: n.w.Rand("net " + from.Name + " to " + to.Name)}
	}
	return row[to.index]
}

// Link returns the settings from one machine to another, to be changed. The
// first call makes them a copy of Default.
func (n *Net) Link(from, to *Machine) *Link {
	l := n.link(from, to)
	if l.own == nil {
		own := n.Default
		l.own = &own
	}
	return l.own
}

// Cut cuts the way from one machine to another, in this direction only.
func (n *Net) Cut(from, to *Machine) { n.Link(from, to).Cut = true }

// Split cuts both directions between every machine of one side and every
// machine of the other.
func (n *Net) Split(a, b []*Machine) {
	for _, x := range a {
		for _, y := range b {
			n.Cut(x, y)
			n.Cut(y, x)
		}
	}
}

// Heal makes every link the Default again, and the Default one without a cut.
func (n *Net) Heal() {
	n.Default.Cut = false
	for _, row := range n.links {
		for _, l := range row {
			if l != nil {
				l.own = nil
			}
		}
	}
}

// Connected reports whether a message could arrive now.
func (n *Net) Connected(from, to *Machine) bool { return !n.settings(n.link(from, to)).Cut }

func (n *Net) settings(l *link) *Link {
	if l.own != nil {
		return l.own
	}
	return &n.Default
}

// anybody receives a message whichever start of the receiver's process it meets.
const anybody = -1

// Send carries a message: f is done on the receiver when it arrives, if it does,
// by whichever process runs there then. What f needs it must have been given by
// value: the sender may change its own memory meanwhile. A question that has an
// answer goes by Call.
func (n *Net) Send(from, to *Machine, f func()) { n.send(from, to, anybody, f) }

// Call carries a question over a connection: f is done on the receiver, which
// may answer then or later, as often as it likes. What answer is given is done on
// the asker. A connection ends with the process at either end: after a crash the
// asker's next start hears nothing of what an earlier one asked, and an answer
// that the receiver had still to give is never given.
func (n *Net) Call(from, to *Machine, f func(answer func(func()))) {
	asker := from.epoch
	n.Send(from, to, func() {
		receiver := to.epoch
		f(func(reply func()) {
			if to.epoch == receiver {
				n.send(to, from, asker, reply)
			}
		})
	})
}

func (n *Net) send(from, to *Machine, epoch int, f func()) {
	n.Sent++
	if from.down {
		n.Lost++
		return
	}
	l := n.link(from, to)
	s := n.settings(l)
	if s.Cut || l.rare(s.Loss) {
		n.Lost++
		return
	}
	n.carry(l, s, to, epoch, f)
	if l.rare(s.Twice) {
		n.Doubled++
		n.carry(l, s, to, epoch, f)
	}
}

func (n *Net) carry(l *link, s *Link, to *Machine, epoch int, f func()) {
	at := n.w.now + s.Delay
	if s.Jitter > 0 {
		at += time.Duration(l.rng.Int64N(int64(s.Jitter) + 1))
	}
	if !l.rare(s.Reorder) {
		at = max(at, l.last)
		l.last = at
	}
	n.w.At(at, OrderMessage, func() {
		if n.settings(l).Cut || to.down || epoch != anybody && epoch != to.epoch {
			n.Lost++
			return
		}
		n.Delivered++
		to.deliver(f)
	})
}

func (l *link) rare(millionths int) bool {
	return millionths > 0 && l.rng.IntN(1_000_000) < millionths
}

func instant(t time.Duration) authority.Instant { return authority.Instant(t) }
