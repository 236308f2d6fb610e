package play

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/sim/world"
)

// belief is a time in which somebody believes, by its own clock, that it holds a
// lease.
type belief struct {
	who, name string
	token     uint64
	from, to  time.Duration
	stop      time.Duration // the stop time that it was told last
	over      bool
}

type beliefList []belief

// beliefs reads them from the log: a grant begins one; its stop time, the end of
// the lease or a crash ends it.
func beliefs(events []world.Event) beliefList {
	var list beliefList
	paused := map[string]time.Duration{} // until when
	living := func(who, name string) *belief {
		for i := len(list) - 1; i >= 0; i-- {
			if b := &list[i]; b.who == who && (b.name == name || name == "") && !b.over {
				return b
			}
		}
		return nil
	}
	end := func(b *belief, at time.Duration, wasPaused bool) {
		if b == nil {
			return
		}
		b.over, b.to = true, at
		// A pause that reached over the stop time: the belief ended there, by
		// the clock, although its owner found out only when it woke.
		if wasPaused && b.stop < at {
			b.to = b.stop
		}
	}
	for _, e := range events {
		switch e.What {
		case "granted":
			list = append(list, belief{who: e.Who, name: e.Name, token: e.Token, from: e.T, stop: e.Stop})
		case "refreshed": // a writer's right
			if b := living(e.Who, e.Name); b != nil {
				b.stop = e.Stop
				break
			}
			list = append(list, belief{who: e.Who, name: e.Name, token: e.Epoch, from: e.T, stop: e.Stop})
		case "kept":
			if b := living(e.Who, e.Name); b != nil {
				b.stop = e.Stop
			}
		case "pauses", "suspends":
			paused[e.Who] = e.Until
		case "ended", "released", "release-refused", "stops-writing":
			end(living(e.Who, e.Name), e.T, paused[e.Who] >= e.T)
		case "crashes":
			for b := living(e.Who, ""); b != nil; b = living(e.Who, "") {
				end(b, e.T, false)
			}
		}
	}
	for i := range list {
		if !list[i].over {
			list[i].to = list[i].stop
		}
	}
	return list
}

// overlap is for how long two of one name believed at once, and the shortest gap
// between two that follow one another.
func (l beliefList) overlap() (overlap, gap time.Duration, hasGap bool) {
	byName := map[string]beliefList{}
	var names []string
	for _, b := range l {
		if byName[b.name] == nil {
			names = append(names, b.name)
		}
		byName[b.name] = append(byName[b.name], b)
	}
	for _, name := range names {
		same := byName[name]
		sort.SliceStable(same, func(i, j int) bool { return same[i].from < same[j].from })
		var last time.Duration
		for i, b := range same {
			switch {
			case i == 0:
				last = b.to
				continue
			case b.from < last:
				overlap += min(last, b.to) - b.from
			case !hasGap || b.from-last < gap:
				gap, hasGap = b.from-last, true
			}
			last = max(last, b.to)
		}
	}
	return overlap, gap, hasGap && overlap == 0
}

// order says whether the tokens of each name grew; "" where there are none.
func (l beliefList) order() string {
	last := map[string]uint64{}
	bad := map[string]bool{}
	var names []string
	any := false
	for _, b := range l {
		any = any || b.token != 0
		if b.token != 0 && b.token <= last[b.name] && !bad[b.name] {
			bad[b.name] = true
			names = append(names, b.name)
		}
		last[b.name] = max(last[b.name], b.token)
	}
	switch {
	case !any:
		return ""
	case names == nil:
		return "grow"
	}
	return "repeat:" + strings.Join(names, ",")
}

// mark marks the grants whose token was granted before, and those that begin
// inside another one's belief.
func (l beliefList) mark(events []world.Event) {
	for i := range events {
		e := &events[i]
		if e.What != "granted" && e.What != "may-write" || e.Mark != "" {
			continue
		}
		for _, b := range l {
			if b.name == e.Name && e.Token != 0 && b.token == e.Token && b.from < e.T {
				e.Mark = "repeated"
				e.Why = strings.TrimPrefix(e.Why+"; "+b.who+" was granted "+strconv.FormatUint(b.token, 10)+" at "+world.Seconds(b.from), "; ")
				break
			}
			if b.name == e.Name && b.who != e.Who && b.from <= e.T && e.T < b.to {
				e.Mark = "overlap"
				e.Why = strings.TrimPrefix(e.Why+"; "+b.who+" believes until "+world.Seconds(b.to), "; ")
				break
			}
		}
	}
}
