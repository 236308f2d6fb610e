package sqlcore

import "context"

// plain repeats a read outside of any transaction for as long as the database
// gives it up for the sake of others. Where SERIALIZABLE is the session's level,
// PostgreSQL does so with a single SELECT too, while a writer that the reader
// conflicts with is between its last check and the end of its COMMIT.
func (e *Engine) plain(ctx context.Context, read func() error) error {
	var wait backoff
	for {
		err := read()
		if err == nil || refusal(err) || e.d.kind(err) != conflict {
			return err
		}
		if !wait.sleep(ctx) {
			return withCause(ctx, err)
		}
	}
}

// committed is record as everybody sees it.
func (e *Engine) committed(ctx context.Context, name string) (r record, err error) {
	err = e.plain(ctx, func() (err error) {
		r, err = e.record(ctx, e.db, name)
		return err
	})
	return r, err
}
