package etcdlease

import (
	"context"
	"errors"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pulse keeps one lease alive. Answers to keep-alives carry no request's number,
// so each is asked for over a stream that has no other outstanding. A stream is
// kept for the next time: with users and passwords, each one costs a login.
type pulse struct {
	mu     sync.Mutex
	idle   map[*member]*beats
	closed bool
}

// beat is the answer to a keep-alive.
type beat struct {
	ttl          int64 // seconds; zero when the lease is not there
	term, member uint64
}

// beat sends one keep-alive to m and returns its answer.
func (s *session) beat(ctx context.Context, m *member) (beat, error) {
	if m.remote == nil {
		ka, err := m.lease.KeepAliveOnce(ctx, s.id)
		if leaseGone(err) {
			return beat{}, nil
		}
		if err != nil {
			return beat{}, err
		}
		return beat{ka.TTL, ka.GetRaftTerm(), ka.GetMemberId()}, nil
	}
	b := s.pulse.take(m)
	if b == nil {
		var err error
		if b, err = s.a.beats(ctx, m); err != nil {
			return beat{}, err
		}
	}
	ka, err := b.ask(ctx, s.id)
	if err != nil {
		b.cancel()
		return beat{}, err
	}
	s.pulse.keep(m, b)
	return beat{ka.TTL, ka.Header.GetRaftTerm(), ka.Header.GetMemberId()}, nil
}

func (p *pulse) take(m *member) *beats {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.idle[m]
	delete(p.idle, m)
	if b != nil && b.broken() {
		return nil
	}
	return b
}

func (p *pulse) keep(m *member, b *beats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.idle[m] != nil {
		b.cancel()
		return
	}
	if p.idle == nil {
		p.idle = map[*member]*beats{}
	}
	p.idle[m] = b
}

// close ends the streams that nobody uses, and later those that are in use.
func (p *pulse) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, b := range p.idle {
		b.cancel()
	}
	p.idle = nil
}

// beats is one stream of keep-alives, and whoever reads it all the time: an
// answer that nobody has asked for, such as one that comes twice, would be taken
// for that to the next request. So it ends the stream.
type beats struct {
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc

	mu    sync.Mutex
	asked chan<- answer // nil: nothing is outstanding
	over  bool
}

type answer struct {
	beat *pb.LeaseKeepAliveResponse
	err  error
}

var errStreamOver = errors.New("the stream of keep-alives has ended")

// beats opens a stream. ctx ends the opening only.
func (a *Authority) beats(ctx context.Context, m *member) (*beats, error) {
	long, cancel := context.WithCancel(clientv3.WithRequireLeader(a.ctx))
	stop := context.AfterFunc(ctx, cancel)
	stream, err := m.remote.LeaseKeepAlive(long)
	if !stop() || err != nil {
		cancel()
		if err == nil {
			err = ctx.Err()
		}
		return nil, err
	}
	b := &beats{stream: stream, cancel: cancel}
	a.group.Go(b.read)
	return b, nil
}

// ask has one request outstanding until it returns. After an error the stream
// must not be used any more.
func (b *beats) ask(ctx context.Context, id clientv3.LeaseID) (*pb.LeaseKeepAliveResponse, error) {
	got := make(chan answer, 1)
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return nil, errStreamOver
	}
	b.asked = got
	b.mu.Unlock()
	defer context.AfterFunc(ctx, b.cancel)()
	_ = b.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}) // the reader's error says more
	select {
	case r := <-got:
		return r.beat, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *beats) read() {
	defer b.cancel()
	for {
		ka, err := b.stream.Recv()
		if !b.deliver(ka, err) {
			return
		}
	}
}

// deliver hands an answer to who has asked, and reports whether to go on.
func (b *beats) deliver(ka *pb.LeaseKeepAliveResponse, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = b.asked == nil || err != nil
	if b.asked != nil {
		b.asked <- answer{ka, err}
		b.asked = nil
	}
	return !b.over
}

func (b *beats) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
