package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
)

// ErrBlocked: another session holds the fence's row, and it could not be ended.
// The error names it. Nothing was written.
var ErrBlocked = errors.New("the fence's row is held by a session that could not be ended")

// right is by which grant whoever holds the row up may be ended: a holder whose
// grant is at least as new as the one that is committed waits for nobody.
type right struct {
	name  string
	grant fence.Grant
	bar   bool // all up to the token are shut out
}

// holder finds and ends the session that holds a row. All of it runs outside of
// the transaction that waits, which has ended by then: it needs no second
// connection.
type holder interface {
	find(ctx context.Context, e *Engine, name string) (session, error)
	end(ctx context.Context, e *Engine, name string, s session) error
	remedy(s session) string
}

// session is one of the database's, as it tells of it.
type session struct {
	id                                   int64
	ms                                   int64 // since its transaction began; -1: not known
	user, program, host, doing, prepared string
	version                              string // of the row as it has changed it, where that is known
}

func (s session) known() bool { return s.id != 0 || s.prepared != "" }

func (s session) number() string { return strconv.FormatInt(s.id, 10) }

func (s session) String() string {
	var b strings.Builder
	if s.id != 0 {
		fmt.Fprintf(&b, "session %d", s.id)
	} else {
		fmt.Fprintf(&b, "the prepared transaction %q", s.prepared)
	}
	for _, part := range []struct{ word, what string }{{"of user", s.user}, {"application", s.program}, {"at", s.host}, {"state", s.doing}} {
		if part.what != "" {
			b.WriteString(" " + part.word + " " + part.what)
		}
	}
	if s.ms > 0 {
		fmt.Fprintf(&b, ", in a transaction of %v", time.Duration(s.ms)*time.Millisecond)
	}
	return b.String()
}

// endHolder ends the session that holds the row after the lock timeout, if the
// committed row gives the right to. Without a holder that can be seen there is
// nothing to do but wait on.
func (e *Engine) endHolder(ctx context.Context, r right) error {
	if e.d.holder == nil {
		return nil
	}
	row, err := e.committed(ctx, r.name)
	switch {
	case errors.Is(err, fence.ErrNoFence):
	case err != nil:
		return nil // whatever it is, the next try meets it as well
	case r.bar:
		if row.Fence > r.grant.Token {
			return nil
		}
	default:
		if _, err := row.CheckRaise(r.grant); err != nil {
			return err
		}
	}
	s, err := e.d.holder.find(ctx, e, r.name)
	if err != nil || !s.known() {
		return nil
	}
	if s.ms >= 0 && time.Duration(s.ms)*time.Millisecond < e.lockTimeout {
		return nil // one of many that come and go
	}
	if s.ms < 0 && !e.stays(ctx, r.name, s) {
		return nil // so was this one
	}
	var failed error
	if s.prepared == "" {
		if failed = e.d.holder.end(ctx, e, r.name, s); failed == nil {
			return nil
		}
	}
	return joinCause(fmt.Errorf("%w: %s has held it for longer than %v, and as long as it does nobody can raise the fence of %q. %s. Nothing was written",
		ErrBlocked, s, e.lockTimeout, r.name, e.d.holder.remedy(s)), failed)
}

// secondLook is long beside a transaction that nothing holds up, and short beside
// a lock timeout.
const secondLook = 100 * time.Millisecond

// stays tells, of a session whose transaction may have begun a moment ago, whether
// the same transaction has the row still.
func (e *Engine) stays(ctx context.Context, name string, s session) bool {
	t := time.NewTimer(secondLook)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	now, err := e.d.holder.find(ctx, e, name)
	return err == nil && now.id == s.id && now.prepared == s.prepared && now.version == s.version
}
