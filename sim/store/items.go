package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Errors of the item table.
var (
	ErrCondition = errors.New("the conditional request failed")
	ErrLimit     = errors.New("over a limit of the service")
)

// The limits of DynamoDB that the arithmetic of a billing run depends on.
const (
	MaxActions     = 100  // in one transaction
	PartitionUnits = 1000 // write units a second of one partition, and so of one item
)

// Transactions is how many transactions write that many items, where each one
// spends one action on the fence: 5,000 invoices take 51.
func Transactions(items int) int { return (items + MaxActions - 2) / (MaxActions - 1) }

// Item is a set of attributes: a number or a text each. A missing one is a zero
// Value.
type Item map[string]Value

// Value is an attribute's value.
type Value struct {
	Set bool
	N   int64
	S   string
}

// N is a number.
func N(n int64) Value { return Value{Set: true, N: n} }

// S is a text.
func S(s string) Value { return Value{Set: true, S: s} }

// Condition is what a write asks of the item as it is: comparisons with values
// that the client brings along. Nothing in it can read the store's clock,
// because the real one has no function for that.
type Condition func(Item) bool

// Exists asks that the attribute is there.
func Exists(attr string) Condition { return func(i Item) bool { return i[attr].Set } }

// NotExists asks that it is not.
func NotExists(attr string) Condition { return func(i Item) bool { return !i[attr].Set } }

// Equal asks that it is v.
func Equal(attr string, v Value) Condition { return func(i Item) bool { return i[attr] == v } }

// Less asks that it is there, and below n.
func Less(attr string, n int64) Condition {
	return func(i Item) bool { return i[attr].Set && i[attr].N < n }
}

// AtMost asks that it is there, and not above n.
func AtMost(attr string, n int64) Condition { return Less(attr, n+1) }

// And joins conditions that are all needed.
func And(cs ...Condition) Condition {
	return func(i Item) bool { return !slices.ContainsFunc(cs, func(c Condition) bool { return !c(i) }) }
}

// Or joins conditions of which one is enough.
func Or(cs ...Condition) Condition {
	return func(i Item) bool { return slices.ContainsFunc(cs, func(c Condition) bool { return c(i) }) }
}

// Action is one write: to be carried out only if If holds. Add counts from zero
// where the attribute is missing.
type Action struct {
	Key    string
	If     Condition
	Set    Item
	Add    map[string]int64
	Remove []string
}

// Items is a table of items.
type Items struct {
	items    map[string]Item // never ranged over where order could be seen
	requests map[string]bool // client request tokens that were carried out
}

// NewItems makes an empty table.
func NewItems() *Items { return &Items{items: map[string]Item{}, requests: map[string]bool{}} }

// Get is a consistent read. A missing item is nil.
func (t *Items) Get(key string) Item { return maps.Clone(t.items[key]) }

// Update carries out one action, and returns the item as it was before.
func (t *Items) Update(a Action) (Item, error) {
	old := t.Get(a.Key)
	if a.If != nil && !a.If(old) {
		return old, fmt.Errorf("item %q: %w", a.Key, ErrCondition)
	}
	t.apply(a)
	return old, nil
}

func (t *Items) apply(a Action) {
	item := t.items[a.Key]
	if item == nil {
		item = Item{}
		t.items[a.Key] = item
	}
	maps.Copy(item, a.Set)
	for attr, n := range a.Add {
		item[attr] = N(item[attr].N + n)
	}
	for _, attr := range a.Remove {
		delete(item, attr)
	}
}

// Transact carries out all actions or none. A request that is repeated under
// the same token is carried out once.
func (t *Items) Transact(request string, actions []Action) error {
	if len(actions) > MaxActions {
		return fmt.Errorf("%w: %d actions in one transaction, %d are allowed", ErrLimit, len(actions), MaxActions)
	}
	if request != "" && t.requests[request] {
		return nil
	}
	seen := map[string]bool{}
	var failed []string
	for n, a := range actions {
		if seen[a.Key] {
			return fmt.Errorf("%w: two actions of one transaction touch %q", ErrLimit, a.Key)
		}
		seen[a.Key] = true
		if a.If != nil && !a.If(t.items[a.Key]) {
			failed = append(failed, fmt.Sprintf("action %d on %q", n+1, a.Key))
		}
	}
	if failed != nil {
		return fmt.Errorf("%w: %s; nothing of the transaction was written", ErrCondition, strings.Join(failed, ", "))
	}
	for _, a := range actions {
		t.apply(a)
	}
	if request != "" {
		t.requests[request] = true
	}
	return nil
}

// Forget drops the memory of client request tokens: ten minutes have passed.
func (t *Items) Forget() { clear(t.requests) }

// Expire deletes the items whose attribute is a time before now: Time to Live,
// which the service gets to within days, and which takes a counter along.
func (t *Items) Expire(attr string, now int64) []string {
	var gone []string
	for _, key := range slices.Sorted(maps.Keys(t.items)) {
		if v := t.items[key][attr]; v.Set && v.N < now {
			delete(t.items, key)
			gone = append(gone, key)
		}
	}
	return gone
}
