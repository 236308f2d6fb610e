package world

import "time"

// Timer is something that is due. The zero Timer and nil are stopped.
type Timer struct {
	f   func()
	gen uint32 // of the item that counts: a moved timer leaves its old item behind
}

// Stop makes sure that it is not done any more, and reports whether it was still
// to be done.
func (t *Timer) Stop() bool {
	if t == nil || t.f == nil {
		return false
	}
	t.f = nil
	return true
}

// item is a place in the queue.
type item struct {
	at    time.Duration
	seq   uint64
	timer *Timer
	order int
	gen   uint32
}

func (a item) before(b item) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.order != b.order {
		return a.order < b.order
	}
	return a.seq < b.seq
}

// queue is a binary heap. It is written out because container/heap would box
// every item, and the queue is what a run spends most of its time in.
type queue []item

func (q *queue) push(it item) {
	s := append(*q, it)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
	*q = s
}

func (q *queue) pop() item {
	s := *q
	first := s[0]
	last := len(s) - 1
	s[0], s[last] = s[last], item{}
	s = s[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(s) {
			break
		}
		if r := down + 1; r < len(s) && s[r].before(s[down]) {
			down = r
		}
		if !s[down].before(s[i]) {
			break
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
	*q = s
	return first
}
