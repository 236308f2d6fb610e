package play

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// Fact is one thing that was counted or measured.
type Fact struct {
	Name  string
	Text  string
	Means string
}

// Facts are in a fixed order.
type Facts []Fact

// Get is the text of a fact, or "" where there is none.
func (f Facts) Get(name string) string {
	for _, fact := range f {
		if fact.Name == name {
			return fact.Text
		}
	}
	return ""
}

// Int is a fact as a number.
func (f Facts) Int(name string) int {
	n, _ := strconv.Atoi(f.Get(name))
	return n
}

func (f *Facts) add(name, text, means string) { *f = append(*f, Fact{name, text, means}) }

func (f *Facts) count(name string, n int, means string) { f.add(name, strconv.Itoa(n), means) }

func (f *Facts) time(name string, d time.Duration, means string) {
	f.add(name, world.Seconds(d), means)
}

// facts looks at the log and at what is left in the world.
func (st *stage) facts(events []world.Event) Facts {
	var f Facts
	st.storeFacts(&f)
	st.arithmetic(&f)
	refused, wakes, requeued, swept, rows := 0, 0, 0, 0, 0
	var last time.Duration
	for _, e := range events {
		if e.What == "write" {
			rows, last = rows+e.Rows, e.T
		}
		switch {
		case e.Mark == "refused":
			refused++
		case e.Mark == "swept":
			swept++
		}
		switch e.What {
		case "wakes-up":
			wakes++
		case "requeued":
			requeued++
		}
	}
	if rows > 0 {
		f.count("rows", rows, "rows written in this run")
		f.time("last", last, "when the last of them was written")
	}
	f.count("refused", refused, "requests that a store refused")
	if st.sweepers != nil {
		f.count("requeued", requeued, "claims that a sweeper gave back")
		f.count("swept-held", swept, "of those were held")
	}
	b := beliefs(events)
	if _, none := st.Lock.(*actor.NoLock); len(b) > 0 && !none {
		overlap, gap, ok := b.overlap()
		f.time("overlap", overlap, "seconds in which two believed that they hold the same lease")
		if ok {
			f.time("gap", gap, "seconds at the least from one holder's right to the next one's")
		}
		f.count("grants", len(b), "grants")
		if order := b.order(); order != "" {
			f.add("tokens", order, "whether the tokens of each name grew")
		}
	}
	if d := waiting(events, st.w.Now()); d > 2*st.Times.Length {
		f.time("waiting", d, "seconds that somebody has waited for a lease, and still waits at the end")
	}
	if e := epochs(events); e != "" {
		f.add("epochs", e, "whether the epochs of the leaders grew")
	}
	st.crowdFacts(&f)
	return f
}

// waiting is the longest wait for a lease that is not over at the end.
func waiting(events []world.Event, end time.Duration) (longest time.Duration) {
	type wait struct{ who, name string }
	since := map[wait]time.Duration{}
	for _, e := range events {
		w := wait{e.Who, e.Name}
		switch e.What {
		case "waits":
			if _, before := since[w]; !before {
				since[w] = e.T
			}
		case "granted", "ended":
			delete(since, w)
		case "crashes":
			for w := range since {
				if w.who == e.Who {
					delete(since, w)
				}
			}
		}
	}
	for _, t := range since { // the largest, in any order
		longest = max(longest, end-t)
	}
	return longest
}

// epochs says whether each leader's epoch was above the one before it.
func epochs(events []world.Event) string {
	last, text := uint64(0), ""
	for _, e := range events {
		if e.What != "leads" || e.Epoch == 0 {
			continue
		}
		if text == "" {
			text = "grow"
		}
		if e.Epoch <= last {
			text = "fall"
		}
		last = e.Epoch
	}
	return text
}

func (st *stage) storeFacts(f *Facts) {
	st.sharedFacts(f)
	if st.bucket != nil {
		m, etag, err := st.bucket.Objects().Manifest()
		if err != nil {
			return
		}
		f.count("named", len(m.Keys), "chunks that the manifest names")
		f.count("stray", len(st.bucket.Objects().Keys())-1-len(m.Keys), "objects that it does not name")
		f.count("lost", st.bucket.Lost, "chunks that it has named, and that a later one does not")
		f.add("etag", etag, "of the manifest")
	}
	if st.table == nil && st.items == nil || len(st.jobs) == 0 {
		return
	}
	charged, twice, missing, done := 0, 0, 0, 0
	for _, j := range st.jobRows() {
		charged += j.Charged() * st.rows
		twice += j.Twice() * st.rows
		missing += (len(j.Chunks) - j.Charged()) * st.rows
		if j.State == "DONE" {
			done++
		}
	}
	f.count("charged", charged, "invoices charged")
	f.count("twice", twice, "charges of an invoice that was charged before")
	f.count("missing", missing, "invoices not charged")
	if st.table != nil && (st.table.Blocked > 0 || st.table.Locking != (actor.Locking{})) {
		f.time("blocked", st.table.Blocked, "seconds that raises waited for a locked row")
	}
	f.add("done", fmt.Sprintf("%d/%d", done, len(st.jobs)), "jobs that are DONE")
}

// jobRows are the jobs that somebody works on, as far as they were begun.
func (st *stage) jobRows() []store.Job {
	var all []store.Job
	if st.table != nil {
		for _, j := range st.table.Jobs() {
			if st.jobs[j.Name] {
				all = append(all, j)
			}
		}
		return all
	}
	for _, name := range slices.Sorted(maps.Keys(st.jobs)) {
		all = append(all, st.items.Ledger.Read(name))
	}
	return all
}
