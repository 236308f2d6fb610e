package world

import "time"

// Event is a line of the log. Zero fields are absent. Who and What are always
// there; the other fields mean the same in every event that has them.
type Event struct {
	N    int           // position in the log, from 1
	T    time.Duration // true time
	Who  string        // machine, or "world"
	What string        // kind of event, in words joined by hyphens

	Name     string        // of the lease, job, row or object
	Token    uint64        // presented or granted
	Fence    uint64        // of the store, after the event
	Rev      uint64        // revision counter of the lock service, after the event
	Term     uint64        // of the lock service
	Epoch    uint64        // of a leader or a DynamoDB item
	Lease    string        // id of the lease
	Deadline time.Duration // at which the authority lets go, in true time
	Stop     time.Duration // the holder's stop time, in true time
	Until    time.Duration // end of a pause, a wait, a cut
	Clock    time.Duration // a reading of the clock of Who
	Chunk    int           // of the job, from 1
	Rows     int           // written, charged, read
	Count    int           // of what What says
	Peer     string        // the other machine
	State    string        // of a row or a job
	ETag     string        // of an object
	Why      string        // reason, in plain words
	Mark     string        // "refused", "overlap", "twice": what a reader should see first

	// Detail marks what only a debugging reader wants (messages, single
	// applies). It is not part of the JSON form.
	Detail bool
}

// Log collects events. Every event goes to the observers, in the order in which
// they were added, and into the log itself if Keep is set.
type Log struct {
	Keep   bool // keep events in memory
	Detail bool // take events marked Detail too

	now       func() time.Duration
	n         int
	events    []Event
	observers []func(Event)
}

// Add gives the event its number and the true time, and returns it so.
func (l *Log) Add(e Event) Event {
	if e.Detail && !l.Detail {
		return e
	}
	l.n++
	e.N, e.T = l.n, l.now()
	if l.Keep {
		l.events = append(l.events, e)
	}
	for _, f := range l.observers {
		f(e)
	}
	return e
}

// Watch calls f with every event from now on.
func (l *Log) Watch(f func(Event)) { l.observers = append(l.observers, f) }

// Events are those that were kept.
func (l *Log) Events() []Event { return l.events }

// Len counts all events, kept or not.
func (l *Log) Len() int { return l.n }
