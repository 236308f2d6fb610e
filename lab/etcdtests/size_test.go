package etcdtests

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// TestTenThousandLongNamesFitIntoOneMessage: a proof of all locks of a client
// lists their keys, and gRPC's own limit is 4 MiB.
func TestTenThousandLongNamesFitIntoOneMessage(t *testing.T) {
	const locks = 10_000
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	a := w.open(w.url("etcd", "", ""))
	grants, errs := make([]authority.Grant, locks), make([]error, locks)
	var wg sync.WaitGroup
	for i := range locks {
		wg.Go(func() {
			name := fmt.Sprintf("%05d-", i)
			name += strings.Repeat("n", fence.MaxName-len(name))
			grants[i], errs[i] = a.Acquire(w.within(2*time.Minute), ask(name, lasting))
		})
	}
	wg.Wait()
	for _, err := range errs {
		w.must(err)
	}
	for i, r := range a.(authority.BulkRenewer).RenewAll(w.long(), grants) {
		if r.Err != nil || r.Grant.Grant != grants[i].Grant || r.Grant.From <= grants[i].From {
			t.Fatalf("%d: %+v, %v", i, r.Grant, r.Err)
		}
	}
}
