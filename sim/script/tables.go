package script

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What a scenario may contain. The tables are the grammar: what is not in them
// is refused, with what there is.

// maxActors bounds the machines of one scenario. Crowds are a number of one
// actor's.
const maxActors = 64

// reserved names are not an actor's.
var reserved = []string{"lock", "store", "net", "world", "flag", "n1", "n2", "n3", "n4", "n5", "n6", "n7"}

type params map[string]func(string) error

func isTime(from, to time.Duration) func(string) error {
	return func(text string) error {
		d, err := ParseTime(text)
		if err == nil && (d < from || d > to) {
			err = fmt.Errorf("%s: allowed are %v to %v", text, from, to)
		}
		return err
	}
}

func isInt(from, to int) func(string) error {
	return func(text string) error {
		n, err := parseInt(text)
		if err == nil && (n < from || n > to) {
			err = fmt.Errorf("%s: allowed are %d to %d", text, from, to)
		}
		return err
	}
}

func isWord(words ...string) func(string) error {
	return func(text string) error {
		if len(words) == 0 && text != "" || slices.Contains(words, text) {
			return nil
		}
		return fmt.Errorf("%q: allowed are %s", text, strings.Join(words, ", "))
	}
}

// isRare is never (0), or not so often that nothing else happens.
func isRare(text string) error {
	if d, err := ParseTime(text); err == nil && d == 0 {
		return nil
	}
	return isTime(10*time.Millisecond, time.Hour)(text)
}

var (
	anyTime  = isTime(0, time.Hour)
	pauses   = isTime(time.Millisecond, time.Hour) // between what is done again and again
	anyShift = isTime(-time.Hour, time.Hour)
	anyCount = isInt(0, 1_000_000)
	anyPPM   = isInt(-500_000, 500_000)
	yesNo    = isWord("yes", "no")
)

var raftParams = params{
	"nodes": isInt(1, 7), "extra": anyTime, "checkpoints": isRare, "fsync": isTime(0, time.Second), "elections": yesNo, "election": isTime(200*time.Millisecond, time.Minute),
}

var kvParams = params{
	"own-lease": isWord("kept", "missing", "early"), "settle": isWord("guard", "read"), "proof": isWord("key", "lease"),
	"batch": isWord("one", "all"), "answers": isWord("matched", "any"), "leases": isWord("clients", "gateway"),
	"restored": isWord("nothing", "keys"), "unknown": isWord("deleted", "kept"),
}

// lockKinds are the lock services.
var lockKinds = map[string]params{
	"raft":    raftParams,
	"none":    raftParams,                                           // everybody is let in; a variant's, so it takes what stands there
	"item":    {"versions": isWord("writes", "contents")},           // one item of a table
	"cache":   {"lag": anyTime, "strings": isWord("weak", "plain")}, // asynchronous primary and replica
	"kv":      kvParams,                                             // one lease for all locks of a client
	"redlock": {"nodes": isInt(3, 7)},                               // independent masters
	"flag":    {},                                                   // which Region writes
}

// lockNodes is how many machines n1, n2, … a lock service has by default.
var lockNodes = map[string]int{"raft": 3, "cache": 2, "redlock": 5, "kv": 1}

// storeKinds are the resources.
var storeKinds = map[string]params{
	"none":    {},
	"table":   {"chunks": isInt(1, 10_000), "rows": isInt(1, 1_000_000), "unique": yesNo, "begun": anyCount, "idle-limit": yesNo, "raise-reads": isWord("locked", "before"), "effects": isWord("locked", "loose")},
	"items":   {"chunks": isInt(1, 1000), "rows": isInt(1, 100_000), "holders": isInt(1, 10_000_000)},
	"pages":   {"marking": isWord("two", "one", "none")},                       // that several may read
	"records": {"payments": isInt(1, 10_000), "bank": isWord("keys", "plain")}, // of what a bank is asked to pay
	"ledger":  {"chunks": isInt(1, 1000), "rows": isInt(1, 100_000)},           // a job in a table of items
	"objects": {"chunks": isInt(1, 10_000), "rows": isInt(1, 1_000_000)},
}

// machineParams are everybody's clocks.
func machineParams(own params) params {
	own["wall"], own["rate"], own["sleeps"] = anyShift, anyPPM, yesNo
	return own
}

var workerParams = machineParams(params{
	"job": isWord(), "raise-after": anyTime, "first": anyTime, "build": anyTime, "send": anyTime, "pace": anyTime,
	"finish-after": anyTime, "release-after": anyTime, "chunks": isInt(0, 10_000), "retry": pauses, "beat": isWord("app", "sidecar"),
	"mark-after": anyTime, "raise-late": anyTime, "in-tx": anyTime, "again": pauses, "beat-within": anyTime,
})

// actorKinds are those who take part.
var actorKinds = map[string]params{
	"worker":    workerParams,
	"observer":  machineParams(params{"poll": pauses, "margin": anyTime, "wait": yesNo, "ttl": isTime(10*time.Millisecond, time.Hour), "claims-after": isWord("record", "own")}),
	"candidate": machineParams(params{"count": isInt(1, 10_000), "loops": yesNo, "slow": anyTime, "next-term": isWord("after", "at-once")}),
	"sweeper":   machineParams(params{"every": pauses, "again": pauses, "brake": isInt(0, 1_000_000)}),
	"writer":    machineParams(params{"refresh": pauses, "write": pauses, "wait": pauses, "margin": anyTime}),
	"client":    machineParams(params{"masters": isWord(), "ttl": isTime(10*time.Millisecond, time.Hour)}),
	"reader":    machineParams(params{"raise-after": anyTime, "every": pauses, "send": anyTime, "pages": isInt(1, 10_000)}),
	"editor":    machineParams(params{"raise-after": anyTime, "every": pauses, "send": anyTime}),
	"payer":     machineParams(params{"every": pauses, "call": anyTime, "pending": isWord("unknown", "repeat", "done")}),
	"taker":     machineParams(params{"order": isWord(), "work": anyTime}),
	"crowd":     machineParams(params{"count": isInt(1, 10_000)}),
}

var linkParams = params{
	"delay": isTime(0, time.Minute), "jitter": isTime(0, time.Minute), "loss": isInt(0, 1_000_000),
	"twice": isInt(0, 1_000_000), "reorder": isInt(0, 1_000_000),
}

// eventFields are the fields of the log that an event line may ask for.
var eventFields = params{
	"token": isInt(0, 1_000_000_000), "fence": isInt(0, 1_000_000_000), "rev": isInt(0, 1_000_000_000), "term": anyCount, "epoch": anyCount, "chunk": anyCount, "rows": anyCount, "count": anyCount,
	"deadline": anyShift, "stop": anyShift, "until": anyShift, "clock": anyShift,
	"name": isWord(), "state": isWord(), "etag": isWord(), "peer": isWord(), "mark": isWord(),
}

// argType is the type of one argument of a verb.
type argType struct {
	check func(*Script, string) error
	rest  bool // as often as wanted
}

type argTypes []argType

func arg(check func(string) error) argType {
	return argType{check: func(_ *Script, text string) error { return check(text) }}
}

func machines() argType {
	return argType{check: func(s *Script, text string) error {
		for name := range strings.SplitSeq(text, ",") {
			if !s.isMachine(name) {
				return fmt.Errorf("nobody is called %q", name)
			}
		}
		return nil
	}}
}

func words() argType {
	return argType{check: func(*Script, string) error { return nil }, rest: true}
}

// machineVerbs are what can be done to every machine.
var machineVerbs = map[string]argTypes{
	"pause": {arg(anyTime)}, "suspend": {arg(anyTime)}, "resume": {}, "crash": {}, "restart": {},
	"wall": {arg(anyShift)}, "rate": {arg(anyPPM)},
}

// actorVerbs are what can be asked of an actor.
var actorVerbs = map[string]map[string]argTypes{
	"worker":    {"start": {}, "cancel": {}, "check": {}, "freeze": {arg(anyTime)}, "lose-answer": {arg(isWord("acquire", "renew", "release", "raise", "write", "finish"))}},
	"observer":  {"start": {}, "release": {}, "check": {}, "lose-answer": {arg(isWord("swap"))}},
	"candidate": {"start": {}, "resign": {}, "pass": {machines()}},
	"sweeper":   {"start": {}},
	"writer":    {"start": {}, "promote": {}},
	"client":    {"start": {}, "release": {}},
	"taker":     {"start": {}},
	"reader":    {"start": {}},
	"editor":    {"start": {}},
	"payer":     {"start": {}},
	"store":     {"bar": {arg(isInt(1, 1_000_000_000))}},
	"crowd":     {"start": {}},
}

// verbsOf are what can be done to things that are not one machine.
var verbsOf = map[string]map[string]argTypes{
	"net": {
		"cut": {machines(), machines()}, "split": {machines(), machines()}, "heal": {},
		"delay": {arg(isTime(0, time.Minute))}, "loss": {arg(isInt(0, 1_000_000))},
	},
	"lock": {
		"use": {arg(isInt(1, 1000))}, "lead": {machines()}, "break": {arg(isWord())}, "save": {}, "restore": {arg(isInt(0, 1_000_000_000))},
		"failover": {}, "expire": {}, "hold-create": {arg(anyTime)}, "hold-keep-alive": {arg(anyTime)},
	},
	"world": {"snapshot": {arg(isWord())}, "note": {words()}},
}
