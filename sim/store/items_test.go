package store

import (
	"errors"
	"fmt"
	"testing"
)

func TestAChunkTakes51TransactionsAndTheRun510(t *testing.T) {
	if n := Transactions(5000); n != 51 || 10*n != 510 {
		t.Fatalf("a chunk of 5,000 takes %d transactions", n)
	}
	items := NewItems()
	batch := func(n int) []Action {
		actions := []Action{{Key: "fence", If: AtMost("fence", 7), Add: map[string]int64{"progress": 1}}}
		for i := range n {
			actions = append(actions, Action{Key: fmt.Sprintf("inv#%d", i), Set: Item{"amount": N(4200)}})
		}
		return actions
	}
	if err := items.Transact("", batch(99)); err == nil {
		t.Fatal("a transaction without a fence item was carried out")
	}
	if _, err := items.Update(Action{Key: "fence", Set: Item{"fence": N(7)}}); err != nil {
		t.Fatal(err)
	}
	if err := items.Transact("", batch(100)); !errors.Is(err, ErrLimit) {
		t.Fatalf("101 actions: %v", err)
	}
	if err := items.Transact("t1", batch(99)); err != nil {
		t.Fatal(err)
	}
	if err := items.Transact("t1", batch(99)); err != nil || items.Get("fence")["progress"].N != 1 {
		t.Fatalf("a repeated request: %v, progress %v", err, items.Get("fence")["progress"])
	}
	items.Forget()
	if _, err := items.Update(Action{Key: "fence", Set: Item{"fence": N(12)}}); err != nil {
		t.Fatal(err)
	}
	if err := items.Transact("", []Action{{Key: "fence", If: AtMost("fence", 7)}, {Key: "inv#new", Set: Item{"amount": N(1)}}}); !errors.Is(err, ErrCondition) || items.Get("inv#new") != nil {
		t.Fatalf("7 at fence 12: %v, %v", err, items.Get("inv#new"))
	}
	if err := items.Transact("", []Action{{Key: "x"}, {Key: "x"}}); !errors.Is(err, ErrLimit) {
		t.Fatalf("one item twice: %v", err)
	}
}

func TestConditionsCompareOnlyWhatTheClientBrings(t *testing.T) {
	item := Item{"holder": S("A"), "until": N(10)}
	for what, c := range map[string]struct {
		c    Condition
		want bool
	}{
		"exists":     {Exists("holder"), true},
		"not exists": {NotExists("holder"), false},
		"equal":      {Equal("holder", S("A")), true},
		"less":       {Less("until", 10), false},
		"at most":    {AtMost("until", 10), true},
		"missing":    {Less("nothing", 10), false},
		"and":        {And(Exists("holder"), Less("until", 10)), false},
		"or":         {Or(NotExists("holder"), Less("until", 11)), true},
	} {
		if got := c.c(item); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestTimeToLiveTakesTheCounterAlong(t *testing.T) {
	items := NewItems()
	claim := Action{Key: "lock", Set: Item{"holder": S("A"), "ttl": N(50)}, Add: map[string]int64{"epoch": 1}}
	if _, err := items.Update(claim); err != nil {
		t.Fatal(err)
	}
	if _, err := items.Update(claim); err != nil || items.Get("lock")["epoch"].N != 2 {
		t.Fatalf("epoch %v, %v", items.Get("lock")["epoch"], err)
	}
	if gone := items.Expire("ttl", 50); gone != nil {
		t.Fatalf("deleted before its time: %v", gone)
	}
	if gone := items.Expire("ttl", 51); len(gone) != 1 {
		t.Fatalf("deleted %v", gone)
	}
	if _, err := items.Update(claim); err != nil || items.Get("lock")["epoch"].N != 1 {
		t.Fatalf("the epoch after the deletion: %v, %v", items.Get("lock")["epoch"], err)
	}
}

func TestTheManifestIsTheFenceOfABucket(t *testing.T) {
	b := NewBucket()
	put := func(m Manifest, match string) (string, error) { return b.Put(ManifestKey, m.String(), match, "") }
	e0, err := b.Put(ManifestKey, Manifest{}.String(), "", "*")
	if err != nil || e0 != "E0" {
		t.Fatal(e0, err)
	}
	if _, err := b.Put(ManifestKey, "", "", "*"); !errors.Is(err, ErrPrecondition) {
		t.Fatalf("If-None-Match on a key that exists: %v", err)
	}
	e1, err := put(Manifest{Token: 7, Nonce: "a"}, e0)
	if err != nil || e1 != "E1" {
		t.Fatal(e1, err)
	}
	if _, err := put(Manifest{Token: 12, Nonce: "b"}, e1); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"7/chunk-2", "12/chunk-2", "15/chunk-3"} {
		if _, err := b.Put(key, "invoices", "", "*"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(Manifest{Token: 7, Nonce: "a", Keys: []string{"7/chunk-2"}}, e1); !errors.Is(err, ErrPrecondition) {
		t.Fatalf("the zombie's commit: %v", err)
	}
	if m, etag, err := b.Manifest(); err != nil || etag != "E2" || m.Token != 12 || m.Keys != nil {
		t.Fatalf("manifest %v %s %v", m, etag, err)
	}
	if _, err := put(Manifest{Token: 12, Nonce: "b", Keys: []string{"12/chunk-2"}}, "E2"); err != nil {
		t.Fatal(err)
	}
	if gone := b.Vacuum(KeyToken); len(gone) != 1 || gone[0] != "7/chunk-2" {
		t.Fatalf("vacuum removed %v; 12 is named, and 15 is above the manifest", gone)
	}
	if m, _, err := b.Manifest(); err != nil || len(m.Keys) != 1 || m.Nonce != "b" {
		t.Fatalf("manifest %v %v", m, err)
	}
	if _, err := b.Get("7/chunk-2"); !errors.Is(err, ErrNoKey) {
		t.Fatal(err)
	}
}
