package play

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
