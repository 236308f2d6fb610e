package play

import "github.com/stint-dev/stint/sim/store"

// crowdFacts are of those whose number matters.
func (st *stage) crowdFacts(f *Facts) {
	if len(st.candidates) > 0 {
		wakes, reads, most := 0, 0, 0
		for _, c := range st.candidates {
			wakes += c.Wakes
			reads += c.Reads
			if c.Loops {
				most = max(most, c.Most)
			}
		}
		if most > 0 {
			f.count("at-once", most, "terms of one candidate whose work ran at once, at most")
		}
		f.count("wakeups", wakes, "candidates that a deletion has woken")
		f.count("reads", reads, "looks at the line")
	}
	if len(st.crowds) > 0 {
		n, losses := 0, 0
		for _, c := range st.crowds {
			n += c.Holding()
			losses += c.Losses()
		}
		f.count("healthy", n, "of the crowd that hold their lease at the end")
		f.count("losses", losses, "leases of healthy holders that expired")
	}
	if len(st.takers) > 0 {
		done := 0
		for _, t := range st.takers {
			if t.Done() {
				done++
			}
		}
		f.count("finished", done, "of those who take several leases had them all")
	}
}

// sharedFacts are of what is read by several, and of payments.
func (st *stage) sharedFacts(f *Facts) {
	if st.shelf != nil {
		torn, finished := 0, 0
		for _, b := range st.books {
			if b.Torn {
				torn++
			}
			if b.Finished {
				finished++
			}
		}
		f.count("torn", torn, "readers that saw two versions")
		f.count("read", finished, "readers that have read all pages")
	}
	if st.bank != nil {
		paid, twice, missing := st.bank.Count()
		open, lost := 0, 0
		for n := range st.record.Len() {
			switch state := st.record.Get(n + 1).State; {
			case state == store.Unknown:
				open++
			case state == store.Paid && !st.bank.Paid(n+1):
				lost++
			}
		}
		f.count("charged", paid, "payments made")
		f.count("twice", twice, "of them made again")
		f.count("missing", missing, "payments not made")
		f.count("lost", lost, "of them noted as made")
		f.count("open", open, "payments left to a person")
	}
}
