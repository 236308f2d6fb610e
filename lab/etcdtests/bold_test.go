package etcdtests

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
	"github.com/stint-dev/stint/lab/grpcfault"
)

// TestANameThatIsTakenHoldsUpNoOtherOfItsBatch: what goes in one transaction as
// if all of it could be done has outcomes of its own when one of it cannot.
func TestANameThatIsTakenHoldsUpNoOtherOfItsBatch(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	taken := w.party().acquire(ask("taken", lasting))
	const free = 16
	for _, r := range []authority.Request{ask("taken", lasting), line("taken", lasting)} {
		warm := p.acquire(ask("warm", lasting))
		// While the first is on its way, all others have to wait for the next batch.
		p.layer.Arm(grpcfault.Fault{Method: txn, Only: puts("/lock/first/"), Kind: grpcfault.DelayAnswer, Delay: 300 * time.Millisecond})
		before := p.layer.Struck()
		first := p.background(ask("first", lasting))
		w.eventually("the first is on its way", func() bool { return p.layer.Struck() > before })
		var outs []<-chan granted
		for i := range free {
			outs = append(outs, p.background(ask(fmt.Sprint("free", i), lasting)))
		}
		refused := make(chan error, 1)
		go func() {
			_, err := p.auth.Acquire(w.long(), r)
			refused <- err
		}()
		for _, out := range append(outs, first) {
			w.must(p.auth.Release(w.long(), w.next(out)))
		}
		w.must(p.auth.Release(w.long(), warm))
		var held *authority.HeldError
		if err := <-refused; !errors.As(err, &held) || held.State.Grant != taken.Grant {
			t.Errorf("a try of the name that is taken by %v: %v", taken.Grant, err)
		}
		if r.Waiter != "" {
			w.must(p.auth.Leave(w.long(), r))
		}
	}
	w.noKeys("first")
}
