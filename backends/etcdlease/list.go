package etcdlease

import (
	"context"
	"iter"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

// page is how many keys one request reads.
const page = 1000

// List implements authority.Lister. It reads the names first, all as of one
// revision, and then each name as Inspect does.
func (a *Authority) List(ctx context.Context) iter.Seq2[authority.State, error] {
	return func(yield func(authority.State, error) bool) {
		if err := a.enter(ctx); err != nil {
			yield(authority.State{}, err)
			return
		}
		names, err := a.names(ctx)
		if err != nil {
			yield(authority.State{}, err)
			return
		}
		for _, name := range names {
			s, err := a.Inspect(ctx, name)
			if err == nil && !s.Held && s.Waiters == 0 {
				continue // ended meanwhile
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// names reads the names that are held or waited for, in the order of their
// bytes, which is not that of their keys.
func (a *Authority) names(ctx context.Context) ([]string, error) {
	all := map[string]struct{}{}
	from, end := a.keys.locks(), clientv3.GetPrefixRangeEnd(a.keys.locks())
	for revision := int64(0); ; {
		var r *clientv3.GetResponse
		err := a.net.do(ctx, func(ctx context.Context, m *member) (err error) {
			r, err = m.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(page), clientv3.WithRev(revision))
			return err
		})
		if err != nil {
			return nil, a.o.explainRead(err)
		}
		for _, kv := range r.Kvs {
			if name, ok := a.keys.name(string(kv.Key)); ok {
				all[name] = struct{}{}
			}
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			return slices.Sorted(maps.Keys(all)), nil
		}
		revision = r.Header.GetRevision()
	}
}
