package actor

import (
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// WorkerConfig is how a worker goes about a job. All times are on its own
// monotonic clock.
type WorkerConfig struct {
	Job        string
	Times      protocol.Times
	RaiseAfter time.Duration // from the grant to the raise
	RaiseLate  time.Duration // from the read to the raise, where the rule raise-first is off
	MarkAfter  time.Duration // from the raise to the claim's marker, where marker-with-raise is off
	First      time.Duration // from the raise to the first check
	Build      time.Duration // from the check to a full buffer
	Send       time.Duration // from there to the store
	InTx       time.Duration // inside the write's transaction; zero: it is one step
	Pace       time.Duration // from one chunk to the next check
	Finish     time.Duration // from the last chunk to DONE
	Release    time.Duration // from DONE to the release
	Retry      time.Duration // a request of the store without an answer is sent again after this
	Again      time.Duration // a worker that lost its lease starts over after this; zero: never
	Chunks     int           // stop after so many; zero: all
	BeatWithin time.Duration // renew only if the work beat within this
	Sidecar    bool          // the heartbeats come from another process, whatever the work does
}

// Worker bills the chunks of a job under a lease. The work is a thread of its
// own beside the holder: it asks before each chunk whether the lease is still
// held, and believes the answer until it asks again. That is what a pause
// breaks, and what the store's check is for.
type Worker struct {
	stage *Stage
	m     *world.Machine
	cfg   WorkerConfig

	holder *Holder
	starts int
	turn   int // counts the lives of the work: what an earlier one began is dropped
	grant  fence.Grant
	next   int
	seq    int64
	etag   string
	wrote  int
	frozen *time.Duration // the work alone stands still until then
	lose   map[string]int
	gone   bool
	done   bool

	// OnOver is called when the job is done and released, or given up.
	OnOver func()
}

// NewWorker makes a worker that waits for Start.
func NewWorker(s *Stage, m *world.Machine, cfg WorkerConfig) *Worker {
	if cfg.Times.Length == 0 {
		cfg.Times = s.Times
	}
	if cfg.Retry == 0 {
		cfg.Retry = cfg.Times.Timeout
	}
	w := &Worker{stage: s, m: m, cfg: cfg, lose: map[string]int{}}
	m.OnCrash(func() { w.turn++ })
	m.OnStart(w.Start)
	return w
}

// Start begins to wait for the lease.
func (w *Worker) Start() {
	w.turn++
	w.starts++
	w.grant, w.next, w.seq, w.wrote, w.frozen, w.gone = fence.Grant{}, 0, 0, 0, nil, false
	turn := w.turn
	w.holder = NewHolder(w.stage, w.m, protocol.Config{
		Name: w.cfg.Job, Prefix: fmt.Sprintf("%s%d", w.m.Name, w.starts), Times: w.cfg.Times,
		Wait: true, BeatWithin: w.cfg.BeatWithin,
	})
	w.holder.OnGranted = func(g authority.Grant) {
		if w.turn == turn {
			w.granted(g)
		}
	}
	w.holder.OnQuit = func() {
		if w.turn == turn {
			w.over()
		}
	}
	w.holder.Start()
}

// Holder is the one of the present start; nil before the first.
func (w *Worker) Holder() *Holder { return w.holder }

// Done reports whether this worker set the job DONE.
func (w *Worker) Done() bool { return w.done }

// Cancel lets the lease go.
func (w *Worker) Cancel() { w.letGo("cancelled") }

// Freeze makes the work stand still, but neither the holder nor its clock: an
// application that hangs beside a sidecar that does not.
func (w *Worker) Freeze(d time.Duration) {
	until := w.stage.World.Now() + d
	w.frozen = &until
	w.stage.log(w.m, world.Event{What: "work-freezes", Name: w.cfg.Job, Token: uint64(w.grant.Token), Until: until})
}

// LoseAnswer loses the next answer to a request: acquire, renew, release, raise,
// write or finish.
func (w *Worker) LoseAnswer(what string) {
	for op, name := range map[protocol.Op]string{protocol.OpAcquire: "acquire", protocol.OpRenew: "renew", protocol.OpRelease: "release"} {
		if name == what && w.holder != nil {
			w.holder.LoseAnswer(op)
			return
		}
	}
	w.lose[what]++
}

// after is a timer of the work: it does nothing once the work is over, and waits
// while the work is frozen.
func (w *Worker) after(d time.Duration, f func()) {
	turn := w.turn
	w.m.Mono.After(d, func() {
		if w.turn != turn || w.gone {
			return
		}
		if w.frozen != nil && w.stage.World.Now() < *w.frozen {
			w.after(*w.frozen-w.stage.World.Now(), f)
			return
		}
		if !w.cfg.Sidecar {
			w.holder.Beat()
		}
		f()
	})
}

// ask sends a request to the store until it is answered. reply is called once,
// unless the work ends before.
func (w *Worker) ask(what string, send func(answered func(reply func()))) {
	turn, answered := w.turn, false
	var try func()
	try = func() {
		lost := w.lose[what] > 0
		if lost {
			w.lose[what]--
		}
		send(func(reply func()) {
			switch {
			case lost:
				w.stage.log(w.m, world.Event{What: "answer-lost", Name: w.cfg.Job, Token: uint64(w.grant.Token), Why: what})
				lost = false
			case !answered && w.turn == turn && !w.gone:
				answered = true
				reply()
			}
		})
		w.after(w.cfg.Retry, func() {
			if answered {
				return
			}
			if !w.holder.Holding() {
				w.letGo("past its stop time, and the store does not answer")
				return
			}
			w.stage.log(w.m, world.Event{What: "asks-again", Name: w.cfg.Job, Token: uint64(w.grant.Token), Why: what})
			try()
		})
	}
	try()
}

// letGo ends the work and gives the lease back.
func (w *Worker) letGo(why string) {
	if w.gone || w.holder == nil {
		return
	}
	w.gone = true
	w.stage.log(w.m, world.Event{What: "lets-go", Name: w.cfg.Job, Token: uint64(w.grant.Token), Why: why})
	if !w.done {
		w.holder.Cancel(errors.New(why))
	}
	w.holder.Release()
}

// over is called when the holder has nothing left to do.
func (w *Worker) over() {
	if w.OnOver != nil {
		w.OnOver()
	}
	if w.cfg.Again > 0 && !w.done {
		turn := w.turn
		w.m.Mono.After(w.cfg.Again, func() {
			if w.turn == turn {
				w.Start()
			}
		})
	}
}
