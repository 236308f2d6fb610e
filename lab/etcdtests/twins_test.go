package etcdtests

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestOfTwoPlacesOfOneRevisionNeitherHolds: stint never makes such a pair. Where
// somebody did, nothing is granted, given back or told on the strength of either,
// and the error names both.
func TestOfTwoPlacesOfOneRevisionNeitherHolds(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	one, two := w.prefix+"/lock/job/one", w.prefix+"/lock/job/two"
	value := func(nonce string) string {
		return `{"nonce":"` + nonce + `","holder":"by hand","since":"2026-01-02T03:04:05Z","length":"10s","client":"nobody"}`
	}
	w.must(w.txn(clientv3.OpPut(one, value("one")), clientv3.OpPut(two, value("two"))))
	grant := authority.Grant{Grant: fence.Grant{Token: fence.Token(w.places("job")[0].created), Nonce: "one"}, Name: "job", Length: 10 * time.Second}
	for what, ask := range map[string]func() error{
		"a try":     func() error { _, err := p.auth.Acquire(w.long(), ask("job", lasting)); return err },
		"a wait":    func() error { _, err := p.serve(w.long(), line("job", lasting)); return err },
		"a look":    func() error { _, err := p.auth.Inspect(w.long(), "job"); return err },
		"a renewal": func() error { _, err := p.auth.Renew(w.long(), grant); return err },
		"a release": func() error { return p.auth.Release(w.long(), grant) },
	} {
		err := ask()
		if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if len(w.places("job")) != 2 {
		t.Errorf("what is left: %v", w.places("job"))
	}
	// Without one of them, the other holds; without both, the name is free.
	w.must(w.txn(clientv3.OpDelete(two)))
	if s, err := p.auth.Inspect(w.long(), "job"); err != nil || s.Grant != grant.Grant {
		t.Errorf("with one of them: %+v, %v", s, err)
	}
	waiter := p.stand(line("job", lasting))
	w.must(w.txn(clientv3.OpDelete(one)))
	w.must(p.auth.Release(w.long(), w.next(waiter)))
}
