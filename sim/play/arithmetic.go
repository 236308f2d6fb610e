package play

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/sim/store"
)

// arithmetic bills the whole job through an item table, as fast as it lets
// anybody, and counts what that takes: one transaction after the other, each with
// one action on the fence item.
func (st *stage) arithmetic(f *Facts) {
	p := st.s.Store
	if p.Kind != "items" {
		return
	}
	chunks, rows := p.Int("chunks", 10), p.Int("rows", 5000)
	t := store.NewItems()
	_, _ = t.Update(store.Action{Key: "fence", Set: store.Item{"fence": store.N(7)}})
	perChunk, all := 0, 0
	for chunk := range chunks {
		n := st.billItems(t, 7, chunk, rows)
		perChunk, all = max(perChunk, n), all+n
	}
	f.count("actions", store.MaxActions, "actions in a transaction, at most: one on the fence item, the others puts")
	f.count("chunk", perChunk, "transactions of a chunk")
	f.count("run", all, "transactions of the whole run")
	f.count("billed", int(t.Get("fence")["progress"].N), "of them committed, as the fence item counts them")
	f.count("units", store.PartitionUnits, "write units a second of the partition that the fence item lies in")
	_, _ = t.Update(store.Action{Key: "fence", Set: store.Item{"fence": store.N(12)}})
	f.count("zombie", st.billItems(t, 7, chunks, rows), "transactions of token 7 that are let in at fence 12")
	f.count("too-many", tooMany(t), "transactions of 101 actions that are let in")

	renew := st.Times.Renew
	if holders := p.Int("holders", 0); holders > 0 {
		f.count("keepalives", int((time.Duration(holders)*time.Second+renew/2)/renew), "renewals a second at the lock service's leader, from its memory")
	}
	if nodes := len(st.w.Machines()) - 1 - len(st.s.Actors); nodes > 0 {
		f.count("majority", nodes/2+1, fmt.Sprintf("of %d nodes", nodes))
		f.count("tolerates", (nodes-1)/2, "nodes that may fail")
	}
}

// billItems puts a chunk's invoices in as few transactions as the limit allows.
func (st *stage) billItems(t *store.Items, token int64, chunk, rows int) (n int) {
	for from := 0; from < rows; from += store.MaxActions - 1 {
		actions := []store.Action{{Key: "fence", If: store.Equal("fence", store.N(token)), Add: map[string]int64{"progress": 1}}}
		for i := from; i < min(rows, from+store.MaxActions-1); i++ {
			actions = append(actions, store.Action{
				Key: fmt.Sprintf("inv#%d#%05d", chunk+1, i+1), If: store.NotExists("amount"), Set: store.Item{"amount": store.N(4200)},
			})
		}
		if err := t.Transact("", actions); err != nil {
			return n
		}
		n++
	}
	return n
}

func tooMany(t *store.Items) int {
	actions := make([]store.Action, store.MaxActions+1)
	for i := range actions {
		actions[i] = store.Action{Key: fmt.Sprintf("x#%d", i), Set: store.Item{"n": store.N(1)}}
	}
	if err := t.Transact("", actions); errors.Is(err, store.ErrLimit) {
		return 0
	}
	return 1
}
