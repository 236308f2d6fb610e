package etcdtests

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stint-dev/stint/authority"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// keysPerLease is what lies on each lease at etcd.
func (w *world) keysPerLease() (keys []int, places int) {
	w.Helper()
	leases, err := w.raw.Leases(w.long())
	w.must(err)
	for _, l := range leases.Leases {
		ttl, err := w.raw.TimeToLive(w.long(), l.ID, clientv3.WithAttachedKeys())
		w.must(err)
		for _, k := range ttl.Keys {
			if strings.HasPrefix(string(k), w.prefix+"/lock/") {
				places++
			}
		}
		keys = append(keys, len(ttl.Keys))
	}
	return keys, places
}

// acquireMany takes n names, from 30 goroutines.
func (w *world) acquireMany(a authority.Authority, n int) []authority.Grant {
	w.Helper()
	grants := make([]authority.Grant, n)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			for j := i; j < n; j += 30 {
				g, err := a.Acquire(w.long(), ask(fmt.Sprintf("job%d", j), lasting))
				if err != nil {
					w.Error(err)
					return
				}
				grants[j] = g
			}
		})
	}
	wg.Wait()
	if w.Failed() {
		w.FailNow()
	}
	return grants
}

// TestALimitedUserPaysTheSameForEachLease: for each key that is put on a lease,
// etcd looks up such a user's right to all keys that are there already. So there
// are never many on one, and a renewal of all is still one round.
func TestALimitedUserPaysTheSameForEachLease(t *testing.T) {
	w := withUsers(t, 1)
	w.user("worker", "hunter2", readWrite)
	a := w.open(w.url("etcd", "worker:hunter2@", ""))
	const leases, most = 700, 61 // places and a guard
	began := now()
	grants := w.acquireMany(a, leases)
	t.Logf("%d leases in %v", leases, now().Sub(began))
	keys, places := w.keysPerLease()
	if places != leases {
		t.Errorf("%d places lie on the leases", places)
	}
	if len(keys) > leases/(most-1)+4 {
		t.Errorf("%d leases at etcd for %d of ours", len(keys), leases)
	}
	for _, n := range keys {
		if n > most {
			t.Errorf("%d keys lie on one lease of %v", n, keys)
		}
	}
	limit, total := int64(4*len(keys)+10), int64(0)
	for range 5 { // whoever is slow to answer is asked twice, and that is no fault
		if total = w.renewAll(a, grants); total <= limit {
			break
		}
	}
	if total > limit {
		t.Errorf("%d requests for one renewal of all, more than %d", total, limit)
	}

	// What is given back leaves room, and in the end nothing is left.
	for _, g := range grants[:100] {
		w.must(a.Release(w.long(), g))
	}
	w.acquireMany(a, 100)
	if again, _ := w.keysPerLease(); len(again) != len(keys) {
		t.Errorf("%d leases at etcd, then %d", len(keys), len(again))
	}
}

// renewAll renews all, and returns how many requests the servers got for it.
func (w *world) renewAll(a authority.Authority, grants []authority.Grant) (requests int64) {
	w.Helper()
	began, before := now(), w.counts()
	for i, r := range a.(authority.BulkRenewer).RenewAll(w.long(), grants) {
		if r.Err != nil || r.Grant.Grant != grants[i].Grant || r.Grant.From <= grants[i].From {
			w.Fatalf("%+v was renewed as %+v, %v", grants[i], r.Grant, r.Err)
		}
		grants[i] = r.Grant
	}
	for method, n := range w.counts() {
		requests += n - before[method]
	}
	w.Logf("%d leases were renewed by %d requests, in %v", len(grants), requests, now().Sub(began))
	return requests
}

// TestOneOfManyLeasesIsLostByItself: the others of its client go on.
func TestOneOfManyLeasesIsLostByItself(t *testing.T) {
	w := withUsers(t, 1)
	w.user("worker", "hunter2", readWrite)
	a := w.open(w.url("etcd", "worker:hunter2@", ""))
	grants := w.acquireMany(a, 200)
	lost := map[string]bool{}
	ttl, err := w.raw.TimeToLive(w.long(), clientv3.LeaseID(w.places("job0")[0].lease), clientv3.WithAttachedKeys())
	w.must(err)
	for _, k := range ttl.Keys {
		lost[string(k)] = true
	}
	lostGrant := make([]bool, len(grants))
	for i, g := range grants {
		lostGrant[i] = lost[w.places(g.Name)[0].key]
	}
	_, err = w.raw.Revoke(w.long(), ttl.ID)
	w.must(err)
	for i, r := range a.(authority.BulkRenewer).RenewAll(w.long(), grants) {
		if gone := r.Err != nil; gone != lostGrant[i] {
			t.Errorf("%s, lost %v: renewed as %+v, %v", grants[i].Name, lostGrant[i], r.Grant, r.Err)
		}
	}
	if g := w.acquireMany(a, 1)[0]; g.Token <= grants[0].Token {
		t.Errorf("token %d after %d", g.Token, grants[0].Token)
	}
}

// TestRootAndNobodyShareOneLease: what they put on a lease costs the same,
// whatever is there.
func TestRootAndNobodyShareOneLease(t *testing.T) {
	w := withUsers(t, 1)
	a := w.open(w.url("etcd", "root:root-secret@", ""))
	w.acquireMany(a, 200)
	if keys, _ := w.keysPerLease(); len(keys) != 1 || keys[0] != 201 {
		t.Errorf("the leases at etcd have %v keys", keys)
	}
}
