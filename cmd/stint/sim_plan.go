package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/sim/explore"
)

// save writes a file that was not there before. One of the same name has the
// same seed and rules, but maybe of another version of stint: it is kept.
func save(dir, name, text string) (path string, err error) {
	for n := 1; ; n++ {
		path = filepath.Join(dir, name)
		if n > 1 {
			path = strings.TrimSuffix(path, ".txt") + fmt.Sprintf(".%d.txt", n)
		}
		if old, err := os.ReadFile(path); err == nil && string(old) == text {
			return path, nil
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, os.ErrExist) && n < 1000 {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(text)
		return path, errors.Join(err, f.Close())
	}
}

// plan writes a run of a random world: its story, or its events, and at the end
// what became of it.
func (o *simRunFlags) plan(out *bufio.Writer, r explore.Result) {
	if !o.json {
		out.WriteString(explore.Story(r))
		return
	}
	for _, e := range r.Events {
		out.Write(append(e.AppendJSON(nil), '\n'))
	}
	last := struct {
		Broken *brokePromise `json:"broken"`
		Done   float64       `json:"done,omitempty"` // when the work was done; absent: it was not
	}{Done: r.Done.Seconds()}
	if b := r.Broken; b != nil {
		last.Broken = &brokePromise{b.Promise, b.Why, b.At.Seconds()}
	}
	json.NewEncoder(out).Encode(last) // the writer keeps its error
}

// runPlan plays a file that stint sim explore has saved. ok is false where the
// name is not one of such a file.
func (o *simRunFlags) runPlan(name string) (ok bool, err error) {
	if !strings.ContainsAny(name, "/.") {
		return false, nil
	}
	text, err := os.ReadFile(name)
	if err != nil || !explore.IsPlan(string(text)) {
		return false, nil // whoever reads it next has the error
	}
	p, err := explore.Parse(string(text))
	if err != nil {
		return true, report.Usage(name+": "+err.Error(), "it was written by stint sim explore")
	}
	change, err := o.change()
	if err != nil {
		return true, err
	}
	if len(change.Set) > 0 {
		return true, report.Usage("--set: a random world has its settings in its file", "edit the lines that begin with set in "+name)
	}
	p.Without |= change.Without
	if o.seed != 0 {
		p.Seed = o.seed
	}
	r := explore.Run(p, true)
	if o.detail {
		r = explore.Detailed(p)
	}
	if err := result(func(out *bufio.Writer) { o.plan(out, r) }); err != nil {
		return true, err
	}
	if r.Broken != nil {
		return true, &report.Problem{Code: 1, What: "a promise is broken: " + r.Broken.Promise}
	}
	return true, nil
}
