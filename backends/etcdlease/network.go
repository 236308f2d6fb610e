package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// network is the members, and which of them is asked: the leader, where it is
// known, else one that answers.
type network struct {
	ctx     context.Context
	timeout time.Duration
	members []*member
	group   sync.WaitGroup

	mu      sync.Mutex
	at      int     // the member that is asked
	term    uint64  // the latest Raft term that an answer showed
	leader  *member // who was elected in ledTerm, by its own words; nil: not known
	led     uint64  // its ID
	ledTerm uint64
	hunting bool
	again   bool // a hunt was asked for while one was under way
}

func newNetwork(ctx context.Context, client *clientv3.Client, timeout time.Duration) (*network, error) {
	n := &network{ctx: ctx, timeout: timeout}
	if client.ActiveConnection() == nil { // in process
		n.members = []*member{inProcess(client)}
		return n, nil
	}
	seen := map[string]bool{}
	for _, ep := range client.Endpoints() {
		if seen[ep] {
			continue
		}
		seen[ep] = true
		m, err := dial(client, ep)
		if err != nil {
			n.close()
			return nil, err
		}
		n.members = append(n.members, m)
	}
	return n, nil
}

// close ends what goes on. The context has been cancelled before.
func (n *network) close() {
	n.mu.Lock() // a hunt that has not seen the end yet is counted by now
	n.hunting = true
	n.mu.Unlock()
	n.group.Wait()
	for _, m := range n.members {
		m.close()
	}
}

func (n *network) current() *member {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.members[n.at]
}

// suspect turns away from a member that did not answer, and looks for the leader.
func (n *network) suspect(m *member) {
	n.mu.Lock()
	if n.members[n.at] == m {
		n.at = (n.at + 1) % len(n.members)
	}
	n.mu.Unlock()
	n.hunt()
}

// note looks at the term of an answer: a new one means another leader.
func (n *network) note(term uint64) {
	n.mu.Lock()
	changed := term > n.term && n.term != 0
	n.term = max(n.term, term)
	n.mu.Unlock()
	if changed {
		n.hunt()
	}
}

// hunt looks for the leader in the background.
func (n *network) hunt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ctx.Err() != nil {
		return
	}
	if n.hunting {
		n.again = true
		return
	}
	n.hunting = true
	n.group.Go(func() {
		// It may be none of the members that we know: then the next sign of a
		// change begins anew.
		for try, pause := 1, 50*time.Millisecond; ; try, pause = try+1, min(2*pause, 2*time.Second) {
			found := n.look()
			n.mu.Lock()
			done := (found || try > 10) && !n.again || n.ctx.Err() != nil
			n.again = false
			n.hunting = !done
			n.mu.Unlock()
			if done {
				return
			}
			rest(n.ctx, pause)
		}
	})
}

// look asks all members at once who leads, and turns to the leader. It does not
// wait for those that do not answer.
func (n *network) look() bool {
	ctx, cancel := context.WithTimeout(n.ctx, 3*n.timeout)
	defer cancel()
	type leads struct {
		at       int
		id, term uint64
	}
	answers := make(chan leads, len(n.members))
	for i, m := range n.members {
		n.group.Go(func() {
			st, err := m.status(ctx)
			if err != nil || st.Leader == 0 || st.Leader != st.Header.GetMemberId() {
				answers <- leads{}
				return
			}
			answers <- leads{i, st.Leader, st.RaftTerm}
		})
	}
	for range n.members {
		if l := <-answers; n.turn(l.at, l.id, l.term) {
			return true
		}
	}
	return false
}

// turn turns to the leader of a term, unless a later one is known.
func (n *network) turn(at int, id, term uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id == 0 || term < n.term {
		return false
	}
	n.at, n.term, n.leader, n.led, n.ledTerm = at, term, n.members[at], id, term
	return true
}

// leads returns the ID of m, and the term, if it was elected in the latest term
// that is known; else zero.
func (n *network) leads(m *member) (id, term uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader != m || n.ledTerm < n.term {
		return 0, 0
	}
	return n.led, n.ledTerm
}

// elsewhere reports whether another member than m is known to lead.
func (n *network) elsewhere(m *member) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leader != nil && n.leader != m && n.leader == n.members[n.at] && n.ledTerm == n.term
}

// do carries out a request that may be repeated, at one member after the other,
// until one answers, the answer is definite, or ctx is done.
func (n *network) do(ctx context.Context, f func(context.Context, *member) error) error {
	timeout, pause, slow := n.timeout, 20*time.Millisecond, false
	for try := 1; ; try++ {
		m := n.current()
		m.wake()
		one, cancel := context.WithTimeout(ctx, timeout)
		err := f(one, m)
		slow = slow || one.Err() != nil
		cancel()
		if err == nil || definite(err) {
			return err
		}
		if ctx.Err() != nil {
			return unanswered(ctx, err)
		}
		n.suspect(m)
		if try%len(n.members) == 0 { // all were asked
			if !rest(ctx, pause) {
				return unanswered(ctx, err)
			}
			pause = min(2*pause, 300*time.Millisecond)
			if slow { // instead of gone, perhaps
				timeout, slow = min(2*timeout, 8*n.timeout), false
			}
		}
	}
}

func unanswered(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return fmt.Errorf("etcd did not answer in time: %w", err)
	}
	return fmt.Errorf("etcd did not answer in time: %w (at last: %w)", ctx.Err(), err)
}

// rest pauses, and reports false when ctx is done.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// definite reports whether the server has refused the request, so that nothing
// was changed and asking another member does not help.
func definite(err error) bool {
	var e rpctypes.EtcdError
	if !errors.As(rpctypes.Error(err), &e) {
		return false
	}
	switch e.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.ResourceExhausted, codes.OutOfRange, codes.DataLoss:
		return true
	}
	return false
}

func leaseGone(err error) bool {
	return err != nil && errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}
