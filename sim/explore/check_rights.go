package explore

import (
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// slack is what the log's true times may be off: they are computed from clocks
// with rates.
const slack = time.Microsecond

// right is a holder's belief that it may act.
type right struct {
	who, name string
	token     uint64
	until     time.Duration
	leads     string // the election; for a candidate, only a leader has a right
}

// rights checks that two holders of one name are never inside their stop times
// at once. It is told true times by the log, and of what changes them.
type rights struct {
	all []right
	// amnesty: until then the grantor has forgotten its leases, and promises
	// nothing.
	amnesty  time.Duration
	election bool
	ttl      time.Duration
	// clocks are those that were not as they should be: of machines whose rate
	// has changed, or whose clock stood still.
	clocks map[string]clock
}

// clock is what the log has told of a machine's.
type clock struct {
	ppm   int
	stood time.Duration // it stood still: until then nothing is promised of it
}

func (c *rights) find(who string) *right {
	for i := range c.all {
		if c.all[i].who == who {
			return &c.all[i]
		}
	}
	c.all = append(c.all, right{who: who})
	return &c.all[len(c.all)-1]
}

func (c *rights) see(e world.Event) *Broken {
	r := c.find(e.Who)
	switch e.What {
	case "clock-rate", "suspends":
		return c.clock(e, r)
	case "granted", "refreshed", "kept", "leads":
		if c.stood(e) {
			r.until = 0
			return nil
		}
	}
	switch e.What {
	case "granted", "refreshed", "kept":
		*r = right{who: e.Who, name: e.Name, token: max(e.Token, e.Epoch), until: e.Stop, leads: r.leads}
		if c.election {
			if r.leads == "" {
				return nil
			}
			r.name = r.leads
		}
		return c.overlap(e, r)
	case "leads":
		r.leads, r.name, r.token, r.until = e.Name, e.Name, e.Token, e.Stop
		return c.overlap(e, r)
	case "ended", "stops-writing", "crashes":
		r.until, r.leads = 0, ""
	case "wall-steps": // only told where wall clocks are what holders go by
		if r.until > 0 {
			r.until -= e.Clock
			return c.overlap(e, r)
		}
	case "restored":
		c.amnesty = max(c.amnesty, e.Until)
	}
	return nil
}

// stood reports whether an event is of a machine whose clock stood still lately.
func (c *rights) stood(e world.Event) bool { return e.T < c.clocks[e.Who].stood }

// clock notes what becomes of a machine's clock. A clock that goes at another
// rate moves the true time of the stop time. One that stood still through a
// suspend has stretched it: until every request from before is over, only the
// stores' promises are kept.
func (c *rights) clock(e world.Event, r *right) *Broken {
	k := c.clocks[e.Who]
	if e.What == "clock-rate" {
		if left := r.until - e.T; left > 0 {
			r.until = e.T + time.Duration(int64(left)*int64(1_000_000+k.ppm)/int64(1_000_000+e.Count))
		}
		k.ppm = e.Count
	} else if e.Count == 1 {
		k.stood = max(k.stood, e.Until+c.ttl+c.ttl/protocol.RateError)
		r.until, r.leads = 0, ""
	}
	if c.clocks == nil {
		c.clocks = map[string]clock{}
	}
	c.clocks[e.Who] = k
	return c.overlap(e, r)
}

func (c *rights) overlap(e world.Event, r *right) *Broken {
	if e.T < c.amnesty || r.until <= e.T+slack {
		return nil
	}
	for _, o := range c.all {
		if o.who == r.who || o.name != r.name || o.until <= e.T+slack || c.election && o.leads == "" {
			continue
		}
		return broken(e, PromiseOverlap, "%s: %s may act with %d until %s, and %s with %d until %s",
			r.name, o.who, o.token, world.Seconds(o.until), r.who, r.token, world.Seconds(r.until))
	}
	return nil
}

// held reports whether a name's holder with this token is inside its stop time.
func (c *rights) held(name string, token uint64, now time.Duration) (who string, ok bool) {
	for _, r := range c.all {
		if r.name == name && r.token == token && r.until > now+slack {
			return r.who, true
		}
	}
	return "", false
}
