package play

import (
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// step does what the scenario says.
func (st *stage) step(s script.Step) {
	switch s.Who {
	case "net":
		st.netStep(s)
	case "lock":
		switch {
		case st.lock != nil:
			st.lock.Do(s.What, s.Args)
		case st.item != nil && s.What == "expire":
			st.item.Expire()
		}
	case "world":
		st.worldStep(s)
	default:
		st.machineStep(st.w.Find(s.Who), s)
	}
}

func (st *stage) log(who string, e world.Event) {
	e.Who = who
	st.w.Log.Add(e)
}

func span(args []string) time.Duration {
	d, _ := script.ParseTime(args[0]) // the parser has checked it
	return d
}

func (st *stage) machineStep(m *world.Machine, s script.Step) {
	switch s.What {
	case "pause", "suspend":
		d := span(s.Args)
		until := st.w.Now() + d
		st.log(m.Name, world.Event{What: s.What + "s", Until: until})
		st.w.At(until, world.OrderFault, func() {
			if m.Paused() {
				st.log(m.Name, world.Event{What: "wakes"})
			}
		})
		if s.What == "pause" {
			m.Pause(d)
		} else {
			m.Suspend(d)
		}
	case "resume":
		m.Resume()
	case "crash":
		st.log(m.Name, world.Event{What: "crashes"})
		m.Crash()
	case "restart":
		st.log(m.Name, world.Event{What: "restarts"})
		m.Restart()
	case "wall":
		m.Wall.Jump(span(s.Args))
		st.log(m.Name, world.Event{What: "wall-steps", Clock: time.Duration(m.Wall.Now()), Why: s.Args[0]})
	case "rate":
		ppm, _ := strconv.Atoi(s.Args[0])
		m.Mono.SetRate(int64(ppm))
		m.Wall.SetRate(int64(ppm))
		st.log(m.Name, world.Event{What: "clock-rate", Why: s.Args[0] + " ppm"})
	default:
		m.Deliver(world.OrderSelf, func() {
			if do := st.verbs[s.Who]; do != nil {
				do(s.What, s.Args)
			}
		})
	}
}

func (st *stage) machines(list string) []*world.Machine {
	var all []*world.Machine
	for name := range strings.SplitSeq(list, ",") {
		all = append(all, st.w.Find(name))
	}
	return all
}

func (st *stage) netStep(s script.Step) {
	net := st.w.Net
	e := world.Event{What: s.What}
	switch s.What {
	case "cut": // one way
		for _, a := range st.machines(s.Args[0]) {
			for _, b := range st.machines(s.Args[1]) {
				net.Cut(a, b)
			}
		}
		e.What, e.Why = "is-cut", s.Args[0]+" to "+s.Args[1]
	case "split":
		net.Split(st.machines(s.Args[0]), st.machines(s.Args[1]))
		e.What, e.Why = "is-split", s.Args[0]+" | "+s.Args[1]
	case "heal":
		net.Heal()
		st.links()
		e.What = "heals"
	case "delay":
		net.Default.Delay = span(s.Args)
		e.What, e.Why = "is-slow", s.Args[0]
	case "loss":
		net.Default.Loss, _ = strconv.Atoi(s.Args[0])
		e.What, e.Why = "loses", s.Args[0]+" of a million"
	}
	st.log("net", e)
}

func (st *stage) worldStep(s script.Step) {
	if s.What == "note" {
		st.log("world", world.Event{What: "note", Why: strings.Join(s.Args, " ")})
		return
	}
	// After everything else that happens at this instant.
	st.w.After(0, world.OrderLast+1, func() { st.snapshot(s.Args[0]) })
}

// snapshot notes who holds what, and how the row stands.
func (st *stage) snapshot(name string) {
	e := world.Event{What: "snapshot", Name: name}
	var parts []string
	if st.lock != nil {
		parts = append(parts, st.lock.Describe(Job))
	}
	if st.table != nil {
		j := st.table.Table.Read(Job)
		e.Fence, e.State = uint64(j.Fence), string(j.State)
		row := "row: fence " + strconv.Itoa(int(j.Fence)) + ", " + string(j.State)
		if j.State == "RUNNING" {
			row += " by " + strconv.Itoa(int(j.Owner))
		}
		row += ", chunks " + done(j.Chunks)
		if j.Indexed {
			row += ", in the index"
		} else {
			row += ", not in the index"
		}
		parts = append(parts, row)
	}
	e.Why = strings.Join(parts, "; ")
	st.log("world", e)
}

// done lists the charged chunks: "1-3".
func done(chunks []int) string {
	var parts []string
	for i := 0; i < len(chunks); i++ {
		if chunks[i] == 0 {
			continue
		}
		from := i
		for i+1 < len(chunks) && chunks[i+1] > 0 {
			i++
		}
		part := strconv.Itoa(from + 1)
		if i > from {
			part += "-" + strconv.Itoa(i+1)
		}
		parts = append(parts, part)
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ",")
}
