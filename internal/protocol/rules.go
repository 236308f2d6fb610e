package protocol

import (
	"fmt"
	"math/bits"
	"strings"
)

// Rules is a set of safety rules. A simulator leaves some of them out, to show
// what each is for; production never does. The zero value is the empty set.
type Rules uint64

// The rules, each with who keeps it.
const (
	RuleFence           Rules = 1 << iota // store: a write with a token below the fence is refused
	RuleEqual                             // store: an equal token is the current holder's, and is let in
	RuleRaiseFirst                        // worker: the raise comes before any read
	RuleMargin                            // holder, observer, incumbent: the stop time lies a margin before the deadline
	RuleMonotonic                         // driver: a machine's clock never steps; without it, the wall clock
	RuleSentAt                            // holder, observer: a lease counts from when the request was sent; without it, from the answer
	RuleConditional                       // holder: a release releases its own grant only; without it, whatever is there
	RuleSecondSighting                    // sweeper: an orphan is seen twice before it is swept
	RuleExactOwner                        // sweeper: a sweep depends on the exact owner and fence that were seen
	RuleMarkerWithRaise                   // store: the raise itself writes the claim's marker
	RuleClockFree                         // observer: a claim waits a lease on its own clock; without it, it compares wall clocks
	RuleBump                              // lessor: a restore moves the revision on
	RuleKeepToken                         // observer: a release keeps the record and its token; without it, the record is deleted
	RulePredecessor                       // candidate: watches the key before its own; without it, the leader's
	RuleHandoverWait                      // successor: waits until the old writer must have stopped
	RuleFullLength                        // lessor: a new leader restarts every lease at its full length
	RuleBeat                              // holder: renews only while the work gives signs of life
	RuleNonce                             // store: an equal token of another grant is refused
	RuleSequence                          // store: a transaction whose answer was lost is not done twice
	RuleFloor                             // lessor, candidate: a grant out of order leaves a floor for those who were passed
	RuleClearCheckpoint                   // lessor: a renewal clears the lease's checkpoint before it is answered
	endOfRules
)

var ruleNames = [...]string{
	"fence", "equal", "raise-first", "margin", "monotonic", "sent-at", "conditional-release", "second-sighting",
	"exact-owner", "marker-with-raise", "clock-free", "bump", "keep-token", "predecessor", "handover-wait",
	"full-length", "beat", "nonce", "sequence", "floor", "renewal-clears-checkpoint",
}

// AllRules is the set of all of them.
const AllRules = endOfRules - 1

// RuleNames lists the rules by name, in the order of their constants.
func RuleNames() []string { return append([]string(nil), ruleNames[:]...) }

// ParseRule returns the rule of a name.
func ParseRule(name string) (Rules, error) {
	for i, n := range ruleNames {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("there is no rule %q; the rules are %s", name, strings.Join(ruleNames[:], ", "))
}

// ParseRules returns the set of some names, divided by commas. No name at all
// is the empty set.
func ParseRules(names string) (Rules, error) {
	var set Rules
	if names == "" {
		return 0, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		r, err := ParseRule(name)
		if err != nil {
			return 0, err
		}
		set |= r
	}
	return set, nil
}

// Has reports whether every rule of other is in r.
func (r Rules) Has(other Rules) bool { return r&other == other }

// Each returns the single rules of r, in order.
func (r Rules) Each() []Rules {
	var each []Rules
	for r &= AllRules; r != 0; r &= r - 1 {
		each = append(each, r&-r)
	}
	return each
}

// String is what ParseRules reads.
func (r Rules) String() string {
	var names []string
	for _, one := range r.Each() {
		names = append(names, ruleNames[bits.TrailingZeros64(uint64(one))])
	}
	return strings.Join(names, ",")
}
