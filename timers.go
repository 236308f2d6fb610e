package stint

import "github.com/stint-dev/stint/authority"

// timers is a heap of the leases that wait for a time. It is written out, with
// four children to a node, because it is most of what a renewal costs.
type timers []timer

// timer repeats the lease's time: looking for the least must not touch leases.
type timer struct {
	at    authority.Instant
	lease *Lease
}

const children = 4

// arm puts a lease's timer at a time, or takes it out of the heap.
func (rt *runtime) arm(l *Lease, at authority.Instant) {
	switch {
	case at == 0 && l.at != 0:
		rt.timers.remove(l)
		l.at = 0
	case at == 0:
	case l.at == 0:
		l.at, l.place = at, int32(len(rt.timers))
		rt.timers = append(rt.timers, timer{at, l})
		rt.timers.up(int(l.place))
	default:
		l.at, rt.timers[l.place].at = at, at
		rt.timers.move(int(l.place))
	}
}

func (t timers) put(e timer, place int) { t[place], e.lease.place = e, int32(place) }

func (t timers) up(place int) {
	e := t[place]
	for place > 0 {
		parent := (place - 1) / children
		if t[parent].at <= e.at {
			break
		}
		t.put(t[parent], place)
		place = parent
	}
	t.put(e, place)
}

// move puts the timer at a place where its time belongs.
func (t timers) move(place int) {
	e := t[place]
	if place > 0 && e.at < t[(place-1)/children].at {
		t.up(place)
		return
	}
	for {
		first := place*children + 1
		if first >= len(t) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(t)); c++ {
			if t[c].at < t[least].at {
				least = c
			}
		}
		if t[least].at >= e.at {
			break
		}
		t.put(t[least], place)
		place = least
	}
	t.put(e, place)
}

func (t *timers) remove(l *Lease) {
	last := len(*t) - 1
	end := (*t)[last]
	(*t)[last] = timer{}
	*t = (*t)[:last]
	if end.lease != l {
		t.put(end, int(l.place))
		t.move(int(l.place))
	}
}

// until appends the leases at and below a place whose time comes by a limit, up
// to a number.
func (t timers) until(found []*Lease, place int, limit authority.Instant, most int) []*Lease {
	if place >= len(t) || t[place].at > limit || len(found) >= most {
		return found
	}
	found = append(found, t[place].lease)
	for c := range children {
		found = t.until(found, place*children+1+c, limit, most)
	}
	return found
}
