package sqlcore

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// ErrNested: a method that writes was called by the function given to InTx. It
// would wait for the transaction that it is itself part of. Nothing was written
// by it.
var ErrNested = errors.New("called inside the function of InTx")

// inside holds the pools for which a function of InTx runs now. It belongs to
// the process, because several Fences may share one pool, and it is the pool
// that two transactions at once wait for.
//
// Which goroutine is inside is not noted, because to ask for its number costs as
// much as a tenth of a transaction. Each pool in use has a trampoline instead,
// through which its functions are called; who is called through it has it on its
// own stack, and only a call at the same time looks there.
var inside struct {
	n     atomic.Int64 // functions that run: nearly always 0 elsewhere, and then nobody looks further
	mu    sync.Mutex
	pools map[any]*entered
	used  [len(trampolines)]bool
}

// entered is a pool that is in use.
type entered struct {
	slot  int           // its trampoline; -1: they are all taken
	n     int           // functions that run
	which map[int64]int // without a trampoline: their goroutines
}

// call runs fn as the function of an InTx.
func (e *Engine) call(tx Tx, fn func(tx Tx) error) error {
	pool := e.db.Identity()
	slot, g := enter(pool)
	defer leave(pool, g)
	if slot < 0 {
		return fn(tx)
	}
	return trampolines[slot](func() error { return fn(tx) })
}

func enter(pool any) (slot int, g int64) {
	inside.n.Add(1)
	inside.mu.Lock()
	defer inside.mu.Unlock()
	p := inside.pools[pool]
	if p == nil {
		p = &entered{slot: -1, which: map[int64]int{}}
		for i, used := range inside.used {
			if !used {
				p.slot, inside.used[i] = i, true
				break
			}
		}
		if inside.pools == nil {
			inside.pools = map[any]*entered{}
		}
		inside.pools[pool] = p
	}
	p.n++
	if p.slot < 0 {
		g = goroutine()
		p.which[g]++
	}
	return p.slot, g
}

func leave(pool any, g int64) {
	inside.mu.Lock()
	defer inside.mu.Unlock()
	inside.n.Add(-1)
	p := inside.pools[pool]
	if p.slot < 0 {
		if p.which[g]--; p.which[g] == 0 {
			delete(p.which, g) // a pool in use for ever sees ever new goroutines
		}
	}
	if p.n--; p.n == 0 {
		delete(inside.pools, pool)
		if p.slot >= 0 {
			inside.used[p.slot] = false
		}
	}
}

// notInside refuses what would wait for itself for ever.
func (e *Engine) notInside() error {
	if inside.n.Load() == 0 || !isInside(e.db.Identity()) {
		return nil
	}
	return fmt.Errorf("%w: it would wait for its own transaction for ever. Nothing was written by it; "+
		"use FinishTx or AdmitSQL with the transaction at hand, or call it after InTx has returned", ErrNested)
}

func isInside(pool any) bool {
	inside.mu.Lock()
	p := inside.pools[pool]
	if p == nil {
		inside.mu.Unlock()
		return false
	}
	slot, which := p.slot, false
	if slot < 0 {
		which = p.which[goroutine()] > 0
	}
	inside.mu.Unlock()
	// If this goroutine is inside, its pool keeps the trampoline meanwhile. If it
	// is not, no trampoline that another has just let go is on its stack.
	return which || slot >= 0 && onStack(reflect.ValueOf(trampolines[slot]).Pointer())
}

// onStack looks for a function among the callers.
func onStack(entry uintptr) bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && f.Entry() == entry {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// goroutine is the number of the running goroutine, as a stack trace gives it.
func goroutine() int64 {
	var b [64]byte
	s := bytes.TrimPrefix(b[:runtime.Stack(b[:], false)], []byte("goroutine "))
	number, _, _ := bytes.Cut(s, []byte(" "))
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
