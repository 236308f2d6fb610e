// Package render shows a run to a person: as lines, as lanes beside true time,
// and as a closing paragraph that is derived from what was counted.
package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/stint-dev/stint/sim/world"
)

// clock is a time for people: to the tenth of a millisecond. The JSON lines have
// every digit.
func clock(d time.Duration) string { return world.Seconds(d.Round(100 * time.Microsecond)) }

// Sentence is an event in words, without its time and without its author.
func Sentence(e world.Event) string {
	if f := sentences[e.What]; f != nil {
		return f(e)
	}
	return plain(e)
}

// Told reports whether there is a sentence for a kind of event.
func Told(what string) bool { return sentences[what] != nil }

// plain is the sentence of an event that has none of its own.
func plain(e world.Event) string {
	s := strings.ReplaceAll(e.What, "-", " ")
	add := func(ok bool, format string, args ...any) {
		if ok {
			s += " " + fmt.Sprintf(format, args...)
		}
	}
	add(e.Name != "", "%s", e.Name)
	add(e.Token != 0, "token %d", e.Token)
	add(e.Fence != 0, "fence %d", e.Fence)
	add(e.Rev != 0, "rev %d", e.Rev)
	add(e.Term != 0, "term %d", e.Term)
	add(e.Epoch != 0, "epoch %d", e.Epoch)
	add(e.Count != 0, "(%d)", e.Count)
	add(e.Deadline != 0, "deadline %s", clock(e.Deadline))
	add(e.Until != 0, "until %s", clock(e.Until))
	add(e.Peer != "", "with %s", e.Peer)
	return because(s, e)
}

func because(s string, e world.Event) string {
	if e.Why != "" {
		s += ": " + e.Why
	}
	return s
}

type sentence = func(world.Event) string

// words makes a sentence from a format whose verbs are fields of the event.
func words(text string) sentence {
	return func(e world.Event) string {
		return because(strings.NewReplacer(
			"{name}", e.Name, "{token}", fmt.Sprint(e.Token), "{fence}", fmt.Sprint(e.Fence), "{rev}", fmt.Sprint(e.Rev),
			"{term}", fmt.Sprint(e.Term), "{epoch}", fmt.Sprint(e.Epoch), "{chunk}", fmt.Sprint(e.Chunk), "{rows}", fmt.Sprint(e.Rows),
			"{count}", fmt.Sprint(e.Count), "{deadline}", clock(e.Deadline), "{stop}", clock(e.Stop),
			"{until}", clock(e.Until), "{clock}", clock(e.Clock), "{state}", e.State, "{etag}", e.ETag, "{peer}", e.Peer,
			"{lease}", e.Lease,
		).Replace(text), e)
	}
}

var sentences = map[string]sentence{
	// Holders.
	"granted":            granted,
	"refused":            words("does not get {name}"),
	"redlock-held":       words("has {name} on {count} masters until {until}"),
	"redlock-failed":     words("has no majority for {name}"),
	"set-refused":        words("refuses {name} to {peer}"),
	"promoted":           words("is the primary now, counter {rev}"),
	"kept":               words("renewed: stop time {stop}"),
	"waits":              words("waits: token {token} holds {name}"),
	"trouble":            words("has trouble with its request"),
	"starved":            words("leaves out a renewal"),
	"ended":              words("its lease has ended"),
	"released":           words("has released {name}"),
	"release-refused":    words("its release changes nothing"),
	"connection-refused": words("{peer} refuses its connection; it tries the next node"),
	"answer-lost":        words("an answer to it gets lost"),
	"leads":              leads,
	"watches":            words("watches {name}"),
	"wakes-up":           words("is woken by the watch of {name}"),
	"work-returns":       words("the work of its term with epoch {epoch} has returned"),
	"has-both":           words("has all of its {count} leases"),

	// The lock service.
	"key-created":     keyCreated,
	"key-deleted":     keyDeleted,
	"renewed":         words("the lease of {name} counts anew: deadline {deadline}, in memory only"),
	"lease-kept":      words("the lease of {peer} counts anew: deadline {deadline}"),
	"settled-create":  words("is asked by {peer} for the create of {name} that had no answer: it is {state}"),
	"held-up":         words("a message hangs in the network until {until}: {name}"),
	"revisions-used":  words("other jobs use revisions: rev {rev}"),
	"lease-restarts":  words("found the lease of token {token} in the log and restarts it: deadline {deadline}"),
	"entries-dropped": words("drops what it had in its log and was never committed ({count})"),
	"elected":         words("is elected in term {term}"),
	"replicated":      words("has what the primary had at counter {rev}"),
	"steps-down":      words("steps down"),
	"restored":        words("is restored from the backup: rev {rev}"),
	"not-restored":    words("is not restored"),
	"saved":           words("a backup is taken at rev {rev}"),
	"fence-barred":    words("the fence is raised to {fence}, which shuts out token {token}"),
	"break-glass":     words("the key {name} is taken away by hand"),

	// The work.
	"check":             checked,
	"lets-go":           words("lets go"),
	"asks-again":        words("has no answer and asks again"),
	"read":              words("reads the row: chunk {chunk} is next"),
	"work-freezes":      words("its work freezes until {until}; its heartbeat goes on"),
	"raised":            raised,
	"raised-refused":    words("raises the fence with {token}: REFUSED"),
	"tx-begins":         words("begins a transaction for chunk {chunk}; the row is locked"),
	"tx-begins-refused": words("begins a transaction for chunk {chunk} with {token}: REFUSED"),
	"admitted":          words("is admitted with {token} for chunk {chunk}; its effect comes later"),
	"admitted-refused":  words("asks to be admitted with {token}: REFUSED"),
	"tx-ended":          words("ends the transaction of {peer}"),
	"raise-waits":       words("raises the fence with {token}: has to wait for {peer}"),
	"marked":            words("writes the claim's marker"),
	"marked-refused":    words("writes the claim's marker with {token}: REFUSED"),
	"write":             written,
	"write-refused":     words("sends chunk {chunk} with {token}: REFUSED"),
	"settled":           words("asks for chunk {chunk} again"),
	"object":            words("puts the object {name}"),
	"done":              words("sets the job DONE; the fence stays {fence}, the row leaves the index"),
	"done-refused":      words("sets the job DONE with {token}: REFUSED"),

	// Readers and payments.
	"raised-to-read":          words("raises the writers' mark to {fence}, to read"),
	"raised-to-read-refused":  words("raises the marks with {token}, to read: REFUSED"),
	"raised-to-write":         words("raises both marks to {fence}, to write"),
	"raised-to-write-refused": words("raises the marks with {token}, to write: REFUSED"),
	"page-read":               words("reads a page: version {count}"),
	"page-read-refused":       words("reads a page with {token}: REFUSED"),
	"page-written":            words("writes version {count}"),
	"page-written-refused":    words("writes with {token}: REFUSED"),
	"torn":                    words("has read what never was"),
	"record":                  words("writes the record of payment {chunk}: {state} by {token}"),
	"paid":                    words("the bank makes payment {chunk}"),
	"paid-before":             words("the bank knows the key of payment {chunk}, and pays nothing more"),
	"asks-bank-again":         words("asks the bank for payment {chunk} again"),
	"takes-as-done":           words("takes payment {chunk} for made"),
	"leaves-open":             words("leaves payment {chunk} open"),

	// Sweepers.
	"sees-orphan":     words("sees the orphan {name}: RUNNING by {token}"),
	"requeued":        words("gives {name} back: {state}"),
	"requeue-refused": words("gives {name} back: REFUSED"),
	"sweeper-brakes":  words("brakes"),

	// An item, a flag.
	"item-claimed":  words("claims the item: epoch {epoch}, lease_until {until}"),
	"item-renewed":  words("renews the item: epoch {epoch}, lease_until {until}"),
	"item-released": words("releases the item: epoch {epoch}"),
	"item-deleted":  words("the item is deleted at epoch {epoch}"),
	"item-read":     words("reads the item: epoch {epoch}; its own wall clock shows {clock}"),
	"refreshed":     words("reads the flag: may write until {stop}"),
	"stops-writing": words("stops writing"),
	"flag-flipped":  words("the flag is flipped: epoch {epoch}"),
	"may-write":     words("may write, with epoch {epoch}"),

	// The world.
	"pauses":     words("freezes until {until}"),
	"suspends":   words("is suspended until {until}"),
	"wakes":      words("wakes, and knows of nothing"),
	"crashes":    words("dies"),
	"restarts":   words("starts again"),
	"wall-steps": words("its wall clock is set to {clock}, a step"),
	"clock-rate": words("its clocks run at another rate"),
	"is-cut":     words("is cut"),
	"is-split":   words("is split"),
	"heals":      words("heals"),
	"snapshot":   words("snapshot {name}"),
	"note":       func(e world.Event) string { return e.Why },
}

func granted(e world.Event) string {
	s := "holds " + e.Name
	if e.Token != 0 {
		s += fmt.Sprintf(" with token %d", e.Token)
	}
	return because(s+"; stop time "+clock(e.Stop), e)
}

func leads(e world.Event) string {
	if e.Term != 0 {
		return fmt.Sprintf("leads the lock service in term %d, rev %d", e.Term, e.Rev)
	}
	return fmt.Sprintf("leads with epoch %d; stop time %s", e.Epoch, clock(e.Stop))
}

func keyCreated(e world.Event) string {
	s := fmt.Sprintf("the key %s is created for %s%s", e.Name, e.Peer, rev(e))
	if e.Deadline != 0 {
		s += ": deadline " + clock(e.Deadline)
	}
	return s
}

func keyDeleted(e world.Event) string {
	s := "the key " + e.Name
	if e.Token != 0 {
		s += fmt.Sprintf(" of token %d", e.Token)
	}
	return because(s+" is deleted"+rev(e), e)
}

// rev is the revision that an event used, of a service that has any.
func rev(e world.Event) string {
	if e.Rev == 0 {
		return ""
	}
	return fmt.Sprintf(", rev %d", e.Rev)
}

func checked(e world.Event) string {
	if e.State == "inside" {
		return fmt.Sprintf("checks its stop time %s: passes", clock(e.Stop))
	}
	return fmt.Sprintf("checks its stop time %s: it is over", clock(e.Stop))
}

func raised(e world.Event) string {
	s := fmt.Sprintf("raises the fence to %d", e.Fence)
	switch {
	case e.ETag != "":
		s += ", in the manifest " + e.ETag
	case e.State != "":
		s += fmt.Sprintf("; the row is %s by %d", e.State, e.Token)
	}
	return because(s, e)
}

func written(e world.Event) string {
	s := fmt.Sprintf("writes chunk %d with %d: accepted", e.Chunk, e.Token)
	if e.ETag != "" {
		s += ", manifest " + e.ETag
	}
	if e.Count > 1 {
		return s + fmt.Sprintf(", CHARGED %d TIMES NOW", e.Count)
	}
	return because(s, e)
}
