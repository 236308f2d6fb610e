package etcdtests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// starting is the authority by way of its Starter.
type starting struct{ *etcdlease.Authority }

func (s starting) Acquire(ctx context.Context, r authority.Request) (authority.Grant, error) {
	answers := make(chan granted, 1)
	s.StartAcquire(ctx, r, func(g authority.Grant, err error) { answers <- granted{g, err, 0} })
	a := <-answers
	return a.Grant, a.err
}

func (s starting) Release(ctx context.Context, g authority.Grant) error {
	answers := make(chan error, 1)
	s.StartRelease(ctx, g, func(err error) { answers <- err })
	return <-answers
}

// TestConformanceOfRequestsThatNobodyWaitsFor: what a Starter answers is what
// Acquire and Release would have returned.
func TestConformanceOfRequestsThatNobodyWaitsFor(t *testing.T) {
	t.Parallel()
	suite{
		dial: dialing(etcdcluster.Run(t, 1, etcdcluster.Options{NoSync: true})),
		wrap: func(a *etcdlease.Authority) authority.Authority { return starting{a} },
	}.run(t)
}

// TestARequestThatNobodyWaitsForIsAnsweredOnce: by its context, by Close, or by
// etcd, whichever is first.
func TestARequestThatNobodyWaitsForIsAnsweredOnce(t *testing.T) {
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	p := w.party()
	held := p.acquire(ask("warm", lasting))
	var answered []chan granted
	for name, end := range map[string]func(cancel func()){
		"etcd":        func(func()) {},
		"its context": func(cancel func()) { cancel() },
	} {
		for i := range 50 {
			ctx, cancel := context.WithCancel(w.long())
			r := line(fmt.Sprint("job", i), lasting)
			answers := make(chan granted, 2)
			p.auth.StartAcquire(ctx, r, func(g authority.Grant, err error) { answers <- granted{g, err, 0} })
			time.Sleep(time.Duration(i) * 40 * time.Microsecond) // about when etcd answers
			end(cancel)
			a := <-answers
			if a.err == nil {
				w.must(p.auth.Release(w.long(), a.Grant))
			} else if name == "etcd" {
				t.Errorf("%s, try %d: %v", name, i, a.err)
			} else {
				w.must(p.auth.Leave(w.long(), r))
				if g, err := p.auth.Acquire(w.long(), r); err == nil { // it had become a grant
					w.must(p.auth.Release(w.long(), g))
				}
			}
			cancel()
			answered = append(answered, answers)
		}
	}
	var late []chan granted
	ctx, cancel := context.WithCancel(w.long())
	defer cancel()
	for range 8 {
		answers := make(chan granted, 2)
		p.auth.StartAcquire(ctx, ask("late", lasting), func(g authority.Grant, err error) { answers <- granted{g, err, 0} })
		late = append(late, answers)
	}
	p.auth.StartRelease(w.long(), held, func(error) {})
	w.must(p.auth.Close())
	for _, answers := range late {
		<-answers
	}
	cancel()
	after := make(chan error, 1)
	p.auth.StartRelease(w.long(), held, func(err error) { after <- err })
	if err := <-after; err == nil {
		t.Error("a release was started after Close")
	}
	// A second answer would have come from a goroutine that a context has started.
	for i, answers := range append(answered, late...) {
		if len(answers) > 0 {
			t.Errorf("request %d: a second answer: %+v", i, <-answers)
		}
	}
}
