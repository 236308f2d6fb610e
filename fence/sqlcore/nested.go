package sqlcore

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// ErrNested: a method that writes was called by the function given to InTx. It
// would wait for the transaction that it is itself part of. Nothing was written
// by it.
var ErrNested = errors.New("called inside the function of InTx")

// inside holds, for every function of InTx that runs now, its goroutine and its
// database. It belongs to the process, because several Fences may share one
// pool, and it is the database that two transactions at once wait for.
var inside struct {
	n  atomic.Int64 // of them: nearly always 0, and then nobody looks further
	mu sync.Mutex
	at map[place]int
}

type place struct {
	db        any
	goroutine int64
}

// enter notes that this goroutine runs a function of InTx. It returns how to
// take that back.
func (e *Engine) enter() (leave func()) {
	p := place{e.db.Identity(), goroutine()}
	inside.mu.Lock()
	defer inside.mu.Unlock()
	if inside.at == nil {
		inside.at = map[place]int{}
	}
	inside.at[p]++
	inside.n.Add(1)
	return func() {
		inside.mu.Lock()
		defer inside.mu.Unlock()
		if inside.at[p]--; inside.at[p] == 0 {
			delete(inside.at, p)
		}
		inside.n.Add(-1)
	}
}

// notInside refuses what would wait for itself for ever.
func (e *Engine) notInside() error {
	if inside.n.Load() == 0 {
		return nil
	}
	p := place{e.db.Identity(), goroutine()}
	inside.mu.Lock()
	defer inside.mu.Unlock()
	if inside.at[p] == 0 {
		return nil
	}
	return fmt.Errorf("%w: it would wait for its own transaction for ever. Nothing was written by it; "+
		"use FinishTx or AdmitSQL with the transaction at hand, or call it after InTx has returned", ErrNested)
}

// goroutine is the number of the running goroutine, as a stack trace gives it.
// There is no other way to tell a caller that waits for itself from another
// goroutine that waits for its turn.
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
