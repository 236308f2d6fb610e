package sqlitelease

import (
	"context"
	"fmt"
	"iter"

	"github.com/ncruces/go-sqlite3"

	"github.com/stint-dev/stint/authority"
)

// Inspect implements authority.Authority.
func (a *Authority) Inspect(ctx context.Context, name string) (authority.State, error) {
	if err := (authority.Request{Name: name, Length: authority.MinLength, Nonce: "x"}).Check(); err != nil {
		return authority.State{}, err
	}
	leave, err := a.enter()
	if err != nil {
		return authority.State{}, err
	}
	defer leave()
	var s authority.State
	err = a.reader.read(ctx, func(c *conn) error {
		for {
			// A lease that had ended before the look has ended for good. One
			// that ends around it is looked at again: it may have been renewed.
			before := a.clock.Now()
			rec, err := c.lookup(name)
			if err != nil {
				return err
			}
			s = rec.public(a.clock.Now())
			if rec.held(before) == s.Held {
				return a.sameFile() // after the look: until then it was the one that others find
			}
		}
	})
	if err != nil {
		return authority.State{}, a.readFailed(ctx, err)
	}
	return s, nil
}

func (a *Authority) readFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("sqlitelease: %s: the look was given up: %w", a.path, ctx.Err())
	}
	return a.explain(err)
}

// page is how many names List reads at a time.
const page = 256

// List implements authority.Lister. It reads the names in pages, so that a slow
// reader holds up nobody; each is as it was when its page was read. Names that
// have been free for long are forgotten.
func (a *Authority) List(ctx context.Context) iter.Seq2[authority.State, error] {
	return func(yield func(authority.State, error) bool) {
		after := ""
		for {
			states, err := a.page(ctx, after)
			if err != nil {
				yield(authority.State{}, err)
				return
			}
			for _, s := range states {
				if !yield(s, nil) {
					return
				}
				after = s.Name
			}
			if len(states) < page {
				return
			}
		}
	}
}

func (a *Authority) page(ctx context.Context, after string) ([]authority.State, error) {
	leave, err := a.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var all []authority.State
	err = a.reader.read(ctx, func(c *conn) error {
		now := a.clock.Now()
		err := c.each(func(s *sqlite3.Stmt) { all = append(all, scan(s, s.ColumnText(8)).public(now)) },
			`SELECT `+columns+`, n.name FROM leases n WHERE n.name > ?1 ORDER BY n.name LIMIT ?3`, after, alive(), page)
		if err != nil {
			return err
		}
		return a.sameFile()
	})
	if err != nil {
		return nil, a.readFailed(ctx, err)
	}
	return all, nil
}
