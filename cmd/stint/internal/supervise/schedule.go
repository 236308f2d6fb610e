package supervise

import "time"

// Schedule says when a command whose lease is not renewed is ended.
type Schedule struct {
	Grace time.Duration // from TERM to the stop time
	Lead  time.Duration // from KILL to the stop time: what killing takes
}

// LeadFor is how long before the stop time KILL goes out. The margin behind the
// stop time pays for a kill that takes longer.
func LeadFor(margin time.Duration) time.Duration {
	return min(max(margin/10, 5*time.Millisecond), 100*time.Millisecond)
}

// Action is what is due.
type Action int

// The actions, in the order of their severity.
const (
	Keep Action = iota
	Term
	Kill
)

// At says what is due with left until the stop time, and when to look again.
func (s Schedule) At(left time.Duration) (Action, time.Duration) {
	term, kill := left-max(s.Grace, s.Lead), left-s.Lead
	switch {
	case kill <= 0:
		return Kill, 0
	case term <= 0:
		return Term, kill
	default:
		return Keep, term
	}
}
