package stint

import (
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/internal/protocol"
)

// step moves one machine.
func (rt *runtime) step(l *Lease, ev protocol.Event) {
	if !l.running {
		if (ev != protocol.Start{}) {
			return
		}
		if rt.closing {
			l.tell(acquireError(l.Name(), protocol.End{Reason: protocol.Rejected, Err: ErrClosed}))
			return
		}
		rt.live[l] = struct{}{}
		l.running = true
	}
	switch ev := ev.(type) {
	case protocol.Answer:
		l.dropCall(ev.Op, ev.Try)
	case protocol.Tick:
		rt.beat(l)
	}
	rt.stepAt(l, rt.now(), ev)
}

// beat tells a machine of the work's last sign of life, before its time is
// judged.
func (rt *runtime) beat(l *Lease) {
	if at := authority.Instant(l.beat.Load()); at != 0 {
		rt.stepAt(l, rt.now(), protocol.Beat{At: at})
	}
}

func (rt *runtime) stepAt(l *Lease, now authority.Instant, ev protocol.Event) {
	out := rt.takeOut()
	l.machine.StepInto(out, now, ev)
	if rt.trace != nil {
		rt.trace(l, now, ev, out.AppendTo(nil, l.machine))
	}
	rt.performAll(l, out)
}

// takeOut returns room for what a step asks for. Performing that may step a
// machine again, which then gets room of its own.
func (rt *runtime) takeOut() *protocol.Out {
	out := rt.out
	if out == nil {
		out = &protocol.Out{}
	}
	rt.out = nil
	return out
}

func (rt *runtime) performAll(l *Lease, out *protocol.Out) {
	if out.Kept != 0 {
		rt.keep(l, out.Kept)
	}
	if out.Renew != 0 {
		rt.renew(l, out.Renew, out.Deadline)
	}
	for _, e := range out.Effects {
		rt.perform(l, e)
	}
	if out.Rearm {
		rt.arm(l, out.Arm)
	}
	out.Reset()
	rt.out = out
}

func (rt *runtime) perform(l *Lease, e protocol.Effect) {
	switch e := e.(type) {
	case protocol.Send:
		if e.Op == protocol.OpRenew {
			rt.renew(l, e.Try, e.Deadline)
			return
		}
		rt.send(l, e)
	case protocol.Recall:
		l.recall(e.Op)
	case protocol.Quit:
		rt.arm(l, 0)
		delete(rt.live, l)
		l.running = false
		l.quit()
	case protocol.Kept:
		rt.keep(l, e.Stop)
	default:
		l.note(e)
	}
}

func (rt *runtime) keep(l *Lease, stop authority.Instant) {
	if !l.kept(stop) {
		rt.step(l, protocol.Lapse{})
	}
}

// renew begins a renewal, which goes in a round where there are any.
func (rt *runtime) renew(l *Lease, try int, deadline authority.Instant) {
	if rt.bulk == nil {
		rt.send(l, protocol.Send{Op: protocol.OpRenew, Try: try, Grant: l.machine.Grant(), Deadline: deadline})
		return
	}
	l.addCall(call{op: protocol.OpRenew, try: try})
	rt.renewals = append(rt.renewals, renewal{l, try, l.machine.Length(), deadline})
}
