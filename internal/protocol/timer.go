package protocol

// timer is a time at which something is to be done; the zero value is none.
type timer struct {
	at Instant
	on bool
}

func (t *timer) set(at Instant)      { *t = timer{at, true} }
func (t *timer) off()                { *t = timer{} }
func (t timer) due(now Instant) bool { return t.on && now >= t.at }
func (t *timer) sooner(at Instant) {
	if !t.on || at < t.at {
		t.set(at)
	}
}

// alarm is the Arm that a driver was last asked for.
type alarm struct{ at timer }

// rings notes that it has been used up.
func (a *alarm) rings() { a.at.off() }

// want returns the Arm that the driver needs to hear, if any.
func (a *alarm) want(t timer) (e Arm, news bool) {
	if t == a.at {
		return Arm{}, false
	}
	a.at = t
	return Arm{t.at}, true
}
