package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/term"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/sim/explore"
)

type brokeAt struct {
	Seed uint64 `json:"seed"`
	brokePromise
	Faults []string `json:"faults"` // after shrinking
	Before int      `json:"faults_before"`
	Shrunk bool     `json:"shrunk"` // to the end; false: it was stopped
	File   string   `json:"file"`   // empty: it could not be saved
}

type brokePromise struct {
	Promise string  `json:"promise"`
	Why     string  `json:"why"`
	At      float64 `json:"t"`
}

// finding is a violation and what is left of it.
type finding struct {
	explore.Report
	small explore.Plan
	again explore.Result // of the small plan
	path  string         // of the file; empty: it could not be saved
	whole bool           // it was shrunk to the end
}

// found shrinks a violation, tells it and saves it. It is told even if it cannot
// be saved: it may have been long in coming. A Ctrl-C ends the shrinking only, and
// another one nothing at all until the file is there; the search's own listening
// ends when this one has begun, so that none comes in between.
func (o *simExploreFlags) found(r explore.Report, searched func()) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	searched()
	small := explore.Shrink(ctx, r.Found.Plan, shrinkProgress(r))
	f := finding{Report: r, small: small, again: explore.Run(small, true), whole: ctx.Err() == nil}
	broken := f.again.Broken
	problem := &report.Problem{Code: 1, What: "a promise is broken: " + broken.Promise}
	path, err := save(o.dir, explore.FileName(small, *broken), explore.File(small))
	stop()
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
	if err != nil {
		problem.Data, problem.Do = "it was not saved: "+err.Error(), "again: "+o.again(r)
	} else {
		f.path = path
	}
	if err := result(func(out *bufio.Writer) { o.tell(out, f) }); err != nil {
		problem.Err = err
	}
	return problem
}

// shrinkProgress is one line on a terminal, and nil elsewhere.
func shrinkProgress(r explore.Report) func(left, tried int) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return func(left, tried int) {
		fmt.Fprintf(os.Stderr, "\r\x1b[Kshrinking seed %d: %d of %d faults and events are left, %d tries ",
			r.Found.Seed, left, len(r.Found.Plan.Faults), tried)
	}
}

// again is the command that finds it once more.
func (o *simExploreFlags) again(r explore.Report) string {
	return fmt.Sprintf("stint sim explore --runs 1 --seed %d%s", r.Found.Seed, o.flags())
}

func (o *simExploreFlags) tell(out *bufio.Writer, f finding) {
	if o.json {
		json.NewEncoder(out).Encode(o.foundJSON(f)) // the writer keeps its error
		return
	}
	fmt.Fprintf(out, "Seed %d, after %s.\n%d of its %d faults and events are left:\n\n%s\n%s\n",
		f.Found.Seed, progressLine(f.Report, o.runs), len(f.small.Faults), len(f.Found.Plan.Faults), f.small.Text(), explore.Story(f.again))
	if !f.whole {
		fmt.Fprintf(out, "The shrinking was stopped. To the end: %s\n", o.again(f.Report))
	}
	command := "stint sim run " + f.path
	if f.path == "" {
		command = o.again(f.Report)
	}
	fmt.Fprintf(out, "Again: %s\n", command)
}

func (o *simExploreFlags) foundJSON(f finding) explored {
	e := o.json1(f.Report, false)
	b := f.again.Broken
	e.Broken = &brokeAt{
		Seed: f.Found.Seed, brokePromise: brokePromise{b.Promise, b.Why, b.At.Seconds()},
		Before: len(f.Found.Plan.Faults), Shrunk: f.whole, File: f.path,
	}
	for _, fault := range f.small.Faults {
		e.Broken.Faults = append(e.Broken.Faults, fault.String())
	}
	return e
}
