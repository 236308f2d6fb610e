//go:build !race

package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// The bars of many leases that are held and renewed every 3 s.
const (
	goroutinesAtMost = 0    // per lease
	bytesAtMost      = 2048 // per lease
	cpuAtMost        = 0.2  // of what the library's KeepAlive costs client and servers
)

const window = 3 * time.Second // each lease is renewed once in it

// cost is what one window has cost.
type cost struct{ client, servers, requests float64 } // % of a core, % of a core, per second

// held is what a holder has measured of itself.
type held struct {
	Bytes, Goroutines float64 // per lease
	Lost              int     // leases that have ended meanwhile
}

// leases measures what it costs to hold many, in a process that does nothing
// else.
func (b *bench) leases(s *servers) error {
	n := b.scale.leases
	b.title("%d leases held, renewed every 3 s, %d nodes (medians of %d windows of %v)", n, len(s.members), b.scale.turns, window)
	idle, err := b.idle(s)
	if err != nil {
		return err
	}
	first, before, err := b.hold(s, "stint", (b.scale.turns+1)/2)
	if err != nil {
		return err
	}
	rival, lib, err := b.hold(s, "library", b.scale.turns)
	if err != nil {
		return err
	}
	_, after, err := b.hold(s, "stint", b.scale.turns/2)
	if err != nil {
		return err
	}
	us := append(before, after...)
	b.row("", "%10s %10s %12s %10s %12s", "client %", "servers %", "requests/s", "B/lease", "goroutines")
	for _, side := range []struct {
		name  string
		costs []cost
		held
	}{{"library's KeepAlive", lib, rival}, {"stint", us, first}} {
		c := middle(side.costs)
		b.row(side.name, "%10.2f %10.2f %12.0f %10.0f %12.3f", c.client, c.servers, c.requests, side.Bytes, side.Goroutines)
	}
	b.row("servers that nobody asks", "%10s %10.2f", "", idle)
	// Heartbeats go on whoever holds what: the bar is on what comes on top.
	l, o := middle(lib), middle(us)
	b.atMost("CPU of client and servers above idle", (o.client+o.servers-idle)/(l.client+l.servers-idle), cpuAtMost)
	b.atMost("bytes of a lease", first.Bytes, bytesAtMost)
	b.atMost("goroutines of a lease", first.Goroutines, goroutinesAtMost)
	b.atMost("leases lost", float64(first.Lost), 0)
	return nil
}

func middle(all []cost) cost {
	var c, s, r []float64
	for _, one := range all {
		c, s, r = append(c, one.client), append(s, one.servers), append(r, one.requests)
	}
	return cost{median(c), median(s), median(r)}
}

// idle is what servers cost that nobody asks, in % of a core.
func (b *bench) idle(s *servers) (float64, error) {
	var all []float64
	for range b.scale.turns {
		one, err := b.window(s, s.members[0])
		if err != nil {
			return 0, err
		}
		all = append(all, one.servers)
	}
	return median(all), nil
}

// hold starts a holder, and measures it and the servers for some windows.
func (b *bench) hold(s *servers, side string, windows int) (held, []cost, error) {
	leader, err := s.leader(b.ctx)
	if err != nil {
		return held{}, nil, err
	}
	c, err := startChild("holder", holderOrder{Side: side, Leases: b.scale.leases, Endpoints: s.endpoints, Leader: leader, Profile: b.profileOf(side)})
	if err != nil {
		return held{}, nil, err
	}
	defer c.close()
	var ready string
	if err := c.hear(&ready); err != nil {
		return held{}, nil, err
	}
	// The first renewals find their common time.
	if err := b.rest(2 * window); err != nil {
		return held{}, nil, err
	}
	var all []cost
	for range windows {
		one, err := b.window(s, c)
		if err != nil {
			return held{}, nil, err
		}
		all = append(all, one)
	}
	var h held
	if _, err := fmt.Fprintln(c.in, "report"); err != nil {
		return held{}, nil, err
	}
	return h, all, c.hear(&h)
}

// profileOf is the file of a holder's CPU profile; empty without -profile.
func (b *bench) profileOf(side string) string {
	if b.profile == "" {
		return ""
	}
	return b.profile + "." + side
}

func (b *bench) rest(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

func (b *bench) window(s *servers, c *child) (cost, error) {
	all := append([]*child{c}, s.members...)
	begun, requests, err := time.Now(), 0.0, error(nil)
	if requests, err = s.requests(b.ctx); err != nil {
		return cost{}, err
	}
	before := make([]time.Duration, len(all))
	for i, p := range all {
		if before[i], err = cpuOf(p.cmd.Process.Pid); err != nil {
			return cost{}, err
		}
	}
	if err := b.rest(window); err != nil {
		return cost{}, err
	}
	took := time.Since(begun)
	var one cost
	for i, p := range all {
		now, err := cpuOf(p.cmd.Process.Pid)
		if err != nil {
			return cost{}, err
		}
		percent := 100 * (now - before[i]).Seconds() / took.Seconds()
		if i == 0 {
			one.client = percent
		} else {
			one.servers += percent
		}
	}
	after, err := s.requests(b.ctx)
	one.requests = (after - requests) / took.Seconds()
	return one, err
}

// cpuOf is the CPU time that a process has used so far.
func cpuOf(pid int) (time.Duration, error) {
	var t unix.Timespec
	// The clock of a process has its number, inverted, above three bits of kind.
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
