// Package grpcfault is a layer of a gRPC client that loses, delays or repeats
// chosen messages: a request before the server sees it, or an answer after the
// server has carried the request out.
//
//	layer := grpcfault.New()
//	cfg.DialOptions = append(cfg.DialOptions, layer.DialOptions()...)
//	layer.Arm(grpcfault.Fault{Method: "KV/Txn", N: 2, Kind: grpcfault.LoseAnswer})
//
// It lies beneath the retries of etcd's client library: what it reports as a
// broken connection is repeated or not by the library's own rules.
package grpcfault

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Kind is what happens to a message.
type Kind int

// The kinds. In a stream each message counts by itself.
const (
	// LoseRequest: the server never sees it. The caller waits until its context
	// ends, or learns of a broken connection (Fault.Broken).
	LoseRequest Kind = iota
	// LoseAnswer: the server has carried the request out, and the caller does not
	// learn of it; otherwise as LoseRequest.
	LoseAnswer
	// DelayRequest: it reaches the server Delay later, even if the caller has
	// given up by then.
	DelayRequest
	// DelayAnswer: the caller learns of it Delay later, unless its context ends
	// before.
	DelayAnswer
	// RepeatRequest: the server gets it twice, and the caller the first answer.
	RepeatRequest
	// RetryRequest: the server gets it twice, and the caller the second answer, as
	// when a layer between them repeats what it had no answer to. In a stream it
	// is RepeatRequest.
	RetryRequest
	// RepeatAnswer: a stream's message comes twice. Other answers cannot.
	RepeatAnswer
	// BeforeRequest calls Do and then sends.
	BeforeRequest
	// BeforeAnswer calls Do when the answer has come, before the caller has it.
	BeforeAnswer
)

var kinds = []string{"lose request", "lose answer", "delay request", "delay answer", "repeat request",
	"retry request", "repeat answer", "before request", "before answer"}

func (k Kind) String() string { return kinds[k] }

// ofAnswers reports whether the kind counts a stream's answers, not its requests.
func (k Kind) ofAnswers() bool {
	return k == LoseAnswer || k == DelayAnswer || k == RepeatAnswer || k == BeforeAnswer
}

// Fault happens to one message, once.
type Fault struct {
	Method string // "KV/Txn", "Lease/LeaseKeepAlive"; empty: any
	N      int    // the N-th such message since Arm, from 1; zero is 1
	Kind   Kind
	Delay  time.Duration
	Broken bool // a lost message is noticed at once, as when the connection breaks
	Do     func()
	// Only says which messages count, where others of the method may come between;
	// nil: all. It is given the request, or a stream's answer where that is struck,
	// and must not use the Layer.
	Only func(message any) bool
	// Until delays, in place of Delay, until it is closed; somebody has to.
	Until <-chan struct{}
}

func (f Fault) String() string {
	how := ""
	if f.Broken {
		how = ", connection broken"
	}
	return fmt.Sprintf("%s %d of %q%s", f.Kind, max(f.N, 1), f.Method, how)
}

// armed is a Fault that counts the messages that fit.
type armed struct {
	Fault
	left int
}

// Layer is one client's. It is safe for concurrent use.
type Layer struct {
	mu     sync.Mutex
	armed  []*armed
	struck int
	seen   []string
	late   int       // requests that are sent late and not yet answered
	ended  sync.Cond // one of them has been
}

// New makes a layer that does nothing until it is armed.
func New() *Layer {
	l := &Layer{}
	l.ended.L = &l.mu
	return l
}

// Arm adds faults; their counting starts now.
func (l *Layer) Arm(faults ...Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range faults {
		l.armed = append(l.armed, &armed{f, max(f.N, 1)})
	}
}

// Disarm takes away the faults that have not happened yet.
func (l *Layer) Disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = nil
}

// Struck is how many faults have happened.
func (l *Layer) Struck() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.struck
}

// Requests lists the methods of the requests so far, in the order of their
// sending, those of streams among them.
func (l *Layer) Requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.seen)
}

// Wait waits for the requests that are sent late and for nobody any more.
func (l *Layer) Wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.late > 0 {
		l.ended.Wait()
	}
}

// count counts requests that are sent late.
func (l *Layer) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late += n
	l.ended.Broadcast()
}

// request counts a request; the fault that strikes it, if any. For a plain call
// faults of the answer strike with its request.
func (l *Layer) request(method string, m any, stream bool) (Fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = append(l.seen, method)
	return l.strike(method, m, func(k Kind) bool { return !stream || !k.ofAnswers() })
}

// answer counts a stream's answer.
func (l *Layer) answer(method string, m any) (Fault, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.strike(method, m, Kind.ofAnswers)
}

// strike counts a message for every fault that it fits, and returns the first
// that is due. Another that is due too strikes the next message.
func (l *Layer) strike(method string, m any, fits func(Kind) bool) (Fault, bool) {
	due := -1
	for i, a := range l.armed {
		if (a.Method != "" && a.Method != method) || !fits(a.Kind) || (a.Only != nil && !a.Only(m)) {
			continue
		}
		switch {
		case a.left > 1:
			a.left--
		case due < 0:
			due = i
		}
	}
	if due < 0 {
		return Fault{}, false
	}
	f := l.armed[due].Fault
	l.armed = slices.Delete(l.armed, due, due+1)
	l.struck++
	return f, true
}
