package etcdlease

import "context"

// pilot hands an op to the next Txn, as enqueue does. If nothing else is under
// way, the caller is to send it itself, with fly: that saves two changes between
// goroutines, which count where a client does one thing after the other. a.mu is
// held.
func (a *Authority) pilot(o *op) (fly bool) {
	if a.flying || len(a.queue) > 0 || a.ctx.Err() != nil {
		a.enqueue(o)
		return false
	}
	a.board(o)
	a.flying = true
	a.group.Add(1)
	return true
}

// await waits for an op, as within does. Whoever flies sends it first: then a
// context that ends leaves its outcome open, and it is settled in the background.
func (a *Authority) await(ctx context.Context, o *op, fly bool) error {
	if fly {
		a.flyAlone(ctx)
		select {
		case <-o.done:
			return nil
		default:
		}
	}
	return a.within(ctx, o.done)
}

// flyAlone sends what is queued on the caller's goroutine, and leaves what is to
// be done after that to one of its own.
func (a *Authority) flyAlone(ctx context.Context) {
	defer a.group.Done()
	a.mu.Lock()
	if len(a.queue) > 1 || ctx.Err() != nil { // others are not to depend on this caller
		a.takeOff()
		a.mu.Unlock()
		return
	}
	batch := a.take()
	a.mu.Unlock()
	if len(batch) > 0 {
		one, cancel := context.WithTimeout(ctx, a.o.Timeout)
		stop := context.AfterFunc(a.ctx, cancel)
		f := a.transmit(one, batch)
		stop()
		cancel()
		if f.err != nil {
			gone := ctx.Err() != nil
			a.mu.Lock()
			batch[0].left = gone
			a.mu.Unlock()
			a.group.Go(func() {
				a.land(f, !gone)
				a.mu.Lock()
				a.takeOff()
				a.mu.Unlock()
			})
			return
		}
		a.land(f, true)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 {
		a.takeOff()
		return
	}
	a.flying = false
}
