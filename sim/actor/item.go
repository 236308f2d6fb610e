package actor

import (
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// Item is a lock kept in one item of a table: a register that compares and
// swaps, and knows no time.
type Item struct {
	stage *Stage
	m     *world.Machine
	t     *store.Items
	Key   string
	// Contents makes the version of what a writer wrote, without its nonce: two
	// writes with the same contents are one version, and the second is none.
	Contents bool
}

// NewItem puts an item table on a machine.
func NewItem(s *Stage, m *world.Machine, key string) *Item {
	return &Item{stage: s, m: m, t: store.NewItems(), Key: key}
}

// Machine is where the item lies.
func (i *Item) Machine() *world.Machine { return i.m }

// Table is the table that the item lies in.
func (i *Item) Table() *store.Items { return i.t }

// Record is the item as it stands, with its version (rvn); no version, no item.
func (i *Item) Record() (protocol.Record, string) {
	it := i.t.Get(i.Key)
	if it == nil {
		return protocol.Record{}, ""
	}
	return protocol.Record{
		Holder: it["holder"].S,
		Grant:  fence.Grant{Token: fence.Token(it["epoch"].N), Nonce: it["nonce"].S},
		Length: time.Duration(it["length"].N),
		Write:  it["rvn"].S,
		Until:  authority.Instant(it["until"].N),
	}, it["rvn"].S
}

// Expire is Time to Live: the service deletes the item, counter and all.
func (i *Item) Expire() {
	before, version := i.Record()
	if _, err := i.t.Update(store.Action{Key: i.Key, Set: store.Item{"ttl": store.N(0)}}); err != nil || version == "" {
		return
	}
	i.t.Expire("ttl", 1)
	i.stage.log(i.m, world.Event{What: "item-deleted", Name: i.Key, Epoch: uint64(before.Grant.Token), Why: "Time to Live; the counter is gone with it"})
}

// swap is one conditional update.
func (i *Item) swap(from *world.Machine, s protocol.Swap) (string, error) {
	r := s.Record
	if i.Contents {
		r.Write = fmt.Sprintf("%s/%s/%v", r.Holder, r.Grant, r.Length)
	}
	a := store.Action{Key: i.Key, Set: store.Item{
		"epoch": store.N(int64(r.Grant.Token)), "nonce": store.S(r.Grant.Nonce), "length": store.N(int64(r.Length)),
		"rvn": store.S(r.Write), "until": store.N(int64(r.Until)),
	}}
	if r.Holder == "" {
		a.Remove = []string{"holder"}
	} else {
		a.Set["holder"] = store.S(r.Holder)
	}
	switch {
	case s.Any:
	case s.If == "":
		a.If = store.NotExists("rvn")
	default:
		a.If = store.Equal("rvn", store.S(s.If))
	}
	before, _ := i.Record()
	if _, err := i.t.Update(a); err != nil {
		return "", protocol.ErrConflict
	}
	if s.Delete {
		a.Set = store.Item{"ttl": store.N(0)}
		if _, err := i.t.Update(store.Action{Key: i.Key, Set: a.Set}); err == nil {
			i.t.Expire("ttl", 1)
		}
	}
	i.logSwap(from, before, s)
	return r.Write, nil
}

func (i *Item) logSwap(from *world.Machine, before protocol.Record, s protocol.Swap) {
	r := s.Record
	e := world.Event{What: "item-claimed", Name: i.Key, Epoch: uint64(r.Grant.Token), Until: time.Duration(r.Until)}
	switch {
	case s.Delete:
		e.What, e.Until, e.Why = "item-deleted", 0, "released by deletion: the counter is gone with it"
	case r.Holder == "":
		e.What, e.Until, e.Why = "item-released", 0, "the holder is cleared, the epoch stays"
	case r.Grant == before.Grant:
		e.What = "item-renewed"
	}
	i.stage.log(from, e)
}
