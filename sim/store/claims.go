package store

import (
	"fmt"
	"slices"

	"github.com/stint-dev/stint/fence"
)

// Finish sets DONE and takes the row out of the index. The fence stays.
func (t *Table) Finish(name string, g fence.Grant) error {
	j, err := t.admit(name, g)
	if err == nil {
		j.State, j.Indexed = fence.Done, false
	}
	return err
}

// Claims lists the sparse index, in the order of the names.
func (t *Table) Claims() []Job {
	var all []Job
	for _, j := range t.jobs {
		if j.Indexed {
			all = append(all, j.clone())
		}
	}
	return all
}

// Jobs lists every row, in the order of the names.
func (t *Table) Jobs() []Job {
	all := make([]Job, 0, len(t.jobs))
	for _, j := range t.jobs {
		all = append(all, j.clone())
	}
	return all
}

// Requeue gives an orphan back, only if its owner and its fence are still
// exactly those that were seen.
func (t *Table) Requeue(seen fence.Row) error {
	i, ok := t.find(seen.Name)
	if !ok {
		return fmt.Errorf("fence %q: %w", seen.Name, fence.ErrChanged)
	}
	j := t.jobs[i]
	same := j.State == fence.Running && j.Owner == seen.Owner && j.Fence == seen.Fence && j.Nonce == seen.Nonce
	if !same && !t.off.ExactOwner {
		return fmt.Errorf("fence %q: %w: seen RUNNING by %d, now %s by %d", seen.Name, fence.ErrChanged, seen.Owner, j.State, j.Owner)
	}
	j.State, j.Indexed = fence.Queued, false
	return nil
}

// Bar raises the fence above token without a claim: the break-glass.
func (t *Table) Bar(name string, token fence.Token) {
	i, ok := t.find(name)
	if !ok {
		j := t.Read(name)
		j.Seq = t.seqs
		t.jobs = slices.Insert(t.jobs, i, &j)
	}
	if j := t.jobs[i]; j.Fence <= token {
		j.Fence, j.Nonce = token+1, ""
	}
}

// Prune drops the rows that nobody runs and keeps one floor in their place.
func (t *Table) Prune() (n int) {
	kept := t.jobs[:0]
	for _, j := range t.jobs {
		if j.State == fence.Running {
			kept = append(kept, j)
			continue
		}
		top := j.Fence
		if j.Nonce == "" { // barred: its own token is still to be let in
			top--
		}
		t.floor, t.seqs = max(t.floor, top), max(t.seqs, j.Seq+1)
		n++
	}
	t.jobs = kept
	return n
}

// Land charges a chunk without any check: an effect on which the fence has no
// hold, because its check was another step.
func (t *Table) Land(name string, chunk int) Job {
	t.Begun(name, chunk)
	i, _ := t.find(name)
	return t.jobs[i].clone()
}

// Begun sets the table up with a chunk that was charged before the run.
func (t *Table) Begun(name string, chunk int) {
	i, ok := t.find(name)
	if !ok {
		j := t.Read(name)
		t.jobs = slices.Insert(t.jobs, i, &j)
	}
	t.jobs[i].Chunks[chunk-1]++
}
