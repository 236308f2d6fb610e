package etcdlease

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// perLease is how many places a session takes where the user is limited to some
// keys. For each key that is put on a lease, etcd then looks up the right to
// all keys that the lease has already; without users, or for root, it does not.
const perLease = 60

// filled reports whether no more places may be put on it. a.mu is held.
func (s *session) filled() bool { return s.a.limited && len(s.places) >= perLease }

// hasRoom reports whether one more place may be put on it, beside those that are
// about to be. a.mu is held.
func (s *session) hasRoom() bool { return !s.a.limited || len(s.places)+s.coming < perLease }

// roomy finds the oldest session with room, so that the later ones empty, or
// begins one. a.mu is held.
func (a *Authority) roomy(length time.Duration) *session {
	for _, s := range a.current[length] {
		if s.hasRoom() {
			return s
		}
	}
	s := &session{a: a, length: length, ready: make(chan struct{}), kick: make(chan struct{}, 1), client: rand.Text()[:12]}
	s.guard = a.keys.guard(s.client)
	a.current[length] = append(a.current[length], s)
	a.group.Go(s.run)
	return s
}

// disown takes a place out of those of the session. a.mu is held.
func (s *session) disown(p *place) {
	end := len(s.places) - 1
	last := s.places[end]
	s.places[p.at], last.at = last, p.at
	s.places[end] = nil
	s.places = s.places[:end]
}

// limits asks whether a user may reach only some keys. Who is none by name, but
// perhaps by a certificate, counts as such where there are users at all.
func (m *member) limits(ctx context.Context, user string) (bool, error) {
	if m.conn == nil {
		return false, nil // in process
	}
	auth := pb.NewAuthClient(m.conn)
	st, err := auth.AuthStatus(ctx, &pb.AuthStatusRequest{})
	switch {
	case err != nil, !st.Enabled:
		return false, err
	case user == "":
		return true, nil
	}
	u, err := auth.UserGet(ctx, &pb.AuthUserGetRequest{Name: user})
	return err == nil && !slices.Contains(u.Roles, "root"), err
}

// askWhetherLimited finds out about the user, beside what else opens a session.
// Where that is not answered, what was known before stands.
func (a *Authority) askWhetherLimited(ctx context.Context) (known <-chan struct{}) {
	done := make(chan struct{})
	a.group.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
		defer cancel()
		limited, err := a.net.current().limits(ctx, a.client.Username)
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			a.limited = limited
		}
	})
	return done
}
