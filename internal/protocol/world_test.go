package protocol

import (
	"container/heap"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// world is a small world for random tests: a list of what is due in true time,
// and machines whose clocks run at rates of their own.
type world struct {
	r      *rand.Rand
	now    time.Duration // true time
	q      queue
	seq    int
	trace  []string
	wrong  string // the first broken promise
	verify func()
}

type item struct {
	at  time.Duration
	seq int
	do  func()
}

type queue []item

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(item)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func newWorld(seed uint64) *world { return &world{r: rand.New(rand.NewPCG(seed, 0))} }

func (w *world) after(d time.Duration, f func()) {
	w.seq++
	heap.Push(&w.q, item{w.now + d, w.seq, f})
}

func (w *world) run(until time.Duration) {
	for len(w.q) > 0 && w.q[0].at <= until && w.wrong == "" {
		next := heap.Pop(&w.q).(item)
		w.now = next.at
		next.do()
		if w.verify != nil {
			w.verify()
		}
	}
}

func (w *world) broken(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("at %v: ", w.now) + fmt.Sprintf(format, args...)
	}
}

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%v ", w.now)+fmt.Sprintf(format, args...))
}

func (w *world) story() string { return w.wrong + "\n" + strings.Join(w.trace, "\n") }

// between draws a time from a range of milliseconds.
func (w *world) between(from, to int) time.Duration {
	return time.Duration(from)*time.Millisecond + time.Duration(w.r.Int64N(int64(to-from)*int64(time.Millisecond)))
}

func (w *world) oneIn(n int) bool { return w.r.IntN(n) == 0 }

// body is a machine's place in the world: its clock, its pauses and its timer.
type body struct {
	w      *world
	name   string
	rate   float64
	paused time.Duration // until
	timer  int           // counts the Arms; only the last one rings
	hear   func(now Instant, ev Event)
	last   Instant // of the last tick
	ticks  int     // at that instant
}

func (w *world) body(name string) *body {
	return &body{w: w, name: name, rate: 1 + (w.r.Float64()*2-1)/RateError}
}

func (b *body) clock() Instant { return Instant(float64(b.w.now) * b.rate) }

// later runs f when the body's clock has reached an instant, and it is not
// paused.
func (b *body) later(at Instant, f func()) {
	d := time.Duration(float64(at)/b.rate) - b.w.now + 1 // never early by rounding
	b.w.after(max(d, 0), func() { b.awake(f) })
}

func (b *body) awake(f func()) {
	if b.w.now < b.paused {
		b.w.after(b.paused-b.w.now, func() { b.awake(f) })
		return
	}
	f()
}

func (b *body) post(ev Event) { b.awake(func() { b.hear(b.clock(), ev) }) }

func (b *body) arm(at Instant) {
	b.timer++
	n := b.timer
	if at == 0 {
		return
	}
	b.later(at, func() {
		if n == b.timer {
			b.spin(at)
			b.hear(b.clock(), Tick{})
		}
	})
}

// spin notices a machine that asks for the tick that it has just had.
func (b *body) spin(at Instant) {
	if at != b.last {
		b.last, b.ticks = at, 0
	}
	if b.ticks++; b.ticks > 10 {
		b.w.broken("%s asks for one tick, at %v, again and again", b.name, at)
	}
}

// naps pauses the body now and then, until a time.
func (b *body) naps(until time.Duration) {
	if at := b.w.between(1000, 30000); b.w.now+at < until {
		b.w.after(at, func() {
			b.paused = max(b.paused, b.w.now+b.w.between(1, 15000))
			b.w.say("%s is paused until %v", b.name, b.paused)
			b.naps(until)
		})
	}
}

var worlds = flag.Uint64("worlds", 100, "random worlds of each kind to run with all rules")

var errLost = errors.New("no answer in time")

// call carries a request and its answer over a network that loses some, and
// answers with fail at the deadline.
func (b *body) call(deadline Instant, there func(reply func(Event)), fail Event) {
	done := false
	answer := func(ev Event) {
		if !done {
			done = true
			b.post(ev)
		}
	}
	if deadline != 0 {
		b.later(deadline, func() { answer(fail) })
	}
	delay := func() time.Duration {
		if b.w.oneIn(20) {
			return b.w.between(200, 4000)
		}
		return b.w.between(1, 50)
	}
	if b.w.oneIn(20) {
		return
	}
	b.w.after(delay(), func() {
		there(func(ev Event) {
			if !b.w.oneIn(20) {
				b.w.after(delay(), func() { answer(ev) })
			}
		})
	})
}
