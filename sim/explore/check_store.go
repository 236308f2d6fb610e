package explore

import (
	"slices"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// books checks the rows of a table: what was charged, and what may change them.
type books struct {
	read   func(name string) store.Job
	job    string
	rights *rights
	grants bool      // a token belongs to one grant
	last   store.Job // as it was after the last event that may change it
	seen   bool
}

func (c *books) see(e world.Event) *Broken {
	switch e.What {
	case "raised", "marked", "write", "done", "requeued":
	case "raised-refused", "write-refused", "done-refused", "marked-refused", "requeue-refused":
		return c.refused(e)
	case "ended", "crashes":
		return c.unmarked(e)
	default:
		return nil
	}
	if e.Name != c.job {
		return nil
	}
	was := c.last
	c.last, c.seen = c.read(c.job), true
	j := c.last
	switch {
	case j.Indexed != (j.State == fence.Running):
		return broken(e, PromiseIndex, "%s is %s, and in the index: %v", j.Name, j.State, j.Indexed)
	case j.Twice() > 0:
		return broken(e, PromiseOnce, "chunk %d of %s was charged %d times", e.Chunk, j.Name, slices.Max(j.Chunks))
	case e.What == "done" && j.Next() != 0:
		return broken(e, PromiseLost, "%s is DONE, and chunk %d was never charged", j.Name, j.Next())
	case c.grants && was.Fence == j.Fence && was.Nonce != "" && was.Nonce != j.Nonce:
		return broken(e, PromiseGrant, "token %d of %s was admitted for the grant %s, and then for %s", j.Fence, j.Name, was.Nonce, j.Nonce)
	case e.What == "requeued":
		return c.swept(e, was)
	}
	return nil
}

// swept looks at who held the row that was given back.
func (c *books) swept(e world.Event, was store.Job) *Broken {
	if who, ok := c.rights.held(c.job, uint64(was.Owner), e.T); ok {
		return broken(e, PromiseSwept, "%s was swept from %d, which %s holds", c.job, was.Owner, who)
	}
	return nil
}

// refused checks that a refusal has changed nothing.
func (c *books) refused(e world.Event) *Broken {
	now := c.read(c.job)
	if c.seen && (now.Row != c.last.Row || now.Indexed != c.last.Indexed || !slices.Equal(now.Chunks, c.last.Chunks)) {
		return broken(e, PromiseRefused, "%s has changed", c.job)
	}
	return nil
}

// unmarked looks for a claim that its holder has left without a trace in the
// index: no sweeper would ever find it.
func (c *books) unmarked(e world.Event) *Broken {
	j := c.read(c.job)
	if j.Nonce == "" || j.Owner == j.Fence || c.rights == nil {
		return nil
	}
	if r := c.rights.find(e.Who); r.token == uint64(j.Fence) {
		return broken(e, PromiseIndex, "%s has raised the fence of %s to %d and is gone, and the row says %q by %d", e.Who, j.Name, j.Fence, j.State, j.Owner)
	}
	return nil
}
