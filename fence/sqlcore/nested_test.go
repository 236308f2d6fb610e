package sqlcore

import (
	"fmt"
	"sync"
	"testing"
)

// poolDB is a pool of which only the identity counts.
type poolDB struct {
	DB
	id int
}

func (p poolDB) Identity() any { return p.id }

func engines(n int) (all []*Engine) {
	for i := range n {
		all = append(all, &Engine{db: poolDB{id: i}})
	}
	return all
}

// deep calls fn below so many frames.
func deep(n int, fn func() error) error {
	if n == 0 {
		return fn()
	}
	return deep(n-1, fn)
}

func TestWhoIsInsideIsToldExactlyForAnyNumberOfPools(t *testing.T) {
	all := engines(2*len(trampolines) + 3)
	var nest func(i int) error
	nest = func(i int) error {
		for j, e := range all {
			if got := e.notInside() != nil; got != (j < i) {
				return fmt.Errorf("inside of %d pools, pool %d says %v", i, j, got)
			}
		}
		if i == len(all) {
			return nil
		}
		return all[i].call(nil, func(Tx) error { return deep(100, func() error { return nest(i + 1) }) })
	}
	for range 3 {
		if err := nest(0); err != nil {
			t.Fatal(err)
		}
	}
	if inside.n.Load() != 0 || len(inside.pools) != 0 || inside.used != [len(trampolines)]bool{} {
		t.Errorf("something is left inside: %+v", &inside)
	}
}

// Each is inside of its own pool while others are inside of theirs, and of the
// same: nobody is taken for another.
func TestWhoIsInsideIsToldApartFromOthersAtTheSameTime(t *testing.T) {
	all := engines(len(trampolines) + 3)
	var wg sync.WaitGroup
	for g := range 4 * len(all) {
		wg.Go(func() {
			mine, next := all[g%len(all)], all[(g+1)%len(all)]
			for range 200 {
				if mine.notInside() != nil {
					t.Error("it is called inside before it is")
				}
				_ = mine.call(nil, func(Tx) error {
					if mine.notInside() == nil || next.notInside() != nil {
						t.Error("inside of its own, another was named, or none")
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
}

// A pool that is never idle forgets the goroutines that have left.
func TestAPoolInUseForgetsWhoHasLeft(t *testing.T) {
	all := engines(len(trampolines) + 1)
	last := all[len(trampolines)]
	var nest func(i int) error
	nest = func(i int) error {
		if i < len(all) {
			return all[i].call(nil, func(Tx) error { return nest(i + 1) })
		}
		for range 5 {
			var one sync.WaitGroup
			one.Go(func() { _ = last.call(nil, func(Tx) error { return nil }) })
			one.Wait()
		}
		if n := len(inside.pools[last.db.Identity()].which); n != 1 {
			return fmt.Errorf("%d goroutines are remembered, one is inside", n)
		}
		return nil
	}
	if err := nest(0); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkCall(b *testing.B) {
	e := engines(1)[0]
	for b.Loop() {
		_ = e.call(nil, func(Tx) error { return nil })
	}
}
