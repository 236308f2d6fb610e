package etcdtests

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/lab/etcdcluster"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestAnotherHolderIsNoticedWithinARenewal: and not only at the stop time, up to
// which a lease is good whatever its authority says.
func TestAnotherHolderIsNoticedWithinARenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	o, err := stint.Options{TTL: 20 * time.Second}.Effective()
	w.must(err)
	l := w.lease(a.stint(o), "job")
	late := w.stopwatch()
	w.breakGlass("job")
	g := b.acquire(ask("job", lasting))
	began := now()
	<-l.Context().Done()
	if took := now().Sub(began); took > o.Renew+3*time.Second+3*late() { // its stop time is 16 s away
		t.Errorf("it took %v to notice another holder, with a renewal every %v (timers were late by up to %v)", took, o.Renew, late())
	}
	if err := l.Err(); !errors.Is(err, stint.ErrTakenOver) {
		t.Errorf("the cause: %v", err)
	}
	if _, err := b.auth.Renew(w.long(), g); err != nil {
		t.Errorf("the new holder was disturbed: %v", err)
	}
}

// TestNobodyIsGrantedBesideAKeyThatEtcdFailsToRemove: its holder is long gone, and
// etcd does not let its lease run out. Nobody else may judge that.
func TestNobodyIsGrantedBesideAKeyThatEtcdFailsToRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a, b := w.party(), w.party()
	const length = 6 * time.Second
	old := a.acquire(ask("job", length))
	lease := clientv3.LeaseID(w.places("job")[0].lease)
	beats, err := w.raw.KeepAlive(t.Context(), lease) // so that it does not run out
	w.must(err)
	<-beats
	go func() {
		for range beats {
		}
	}()
	a.cut()
	waiter := b.stand(line("job", length))
	select {
	case g := <-waiter:
		t.Fatalf("granted beside a key that is there: %+v", g)
	case <-time.After(2 * length): // a judge of its own would have ended it by now
	}
	if s, err := b.auth.Inspect(w.long(), "job"); err != nil || !s.Held || s.Grant != old.Grant {
		t.Errorf("what is told of it: %+v, %v", s, err)
	}
	_, err = w.raw.Revoke(w.long(), lease)
	w.must(err)
	g := w.next(waiter)
	if g.Token <= old.Token {
		t.Errorf("token %d after %d", g.Token, old.Token)
	}
	w.must(b.auth.Release(w.long(), g))
}

// TestWhatLiesInEtcdCanBeRead: as the documentation shows it, by `etcdctl get
// --prefix`.
func TestWhatLiesInEtcdCanBeRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	g := p.acquire(line("billing/eu 100%", time.Minute))
	got, err := w.raw.Get(w.long(), w.prefix+"/", clientv3.WithPrefix())
	w.must(err)
	keys := map[string]string{}
	for _, kv := range got.Kvs {
		keys[string(kv.Key)] = string(kv.Value)
	}
	var shown struct {
		Nonce, Holder, Length, Client string
		Since                         time.Time
	}
	for key, value := range keys {
		if strings.HasPrefix(key, w.prefix+"/lock/billing%2Feu 100%25/") {
			w.must(json.Unmarshal([]byte(value), &shown))
		}
	}
	if shown.Nonce != g.Nonce || !strings.HasPrefix(shown.Holder, "holder ") || shown.Length != "1m0s" || time.Since(shown.Since).Abs() > time.Minute {
		t.Errorf("the place of %+v is %+v, of %v", g, shown, keys)
	}
	if _, ok := keys[w.prefix+"/client/"+shown.Client]; !ok || len(keys) != 2 {
		t.Errorf("beside it lie %v", keys)
	}
}
