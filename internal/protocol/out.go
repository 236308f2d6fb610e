package protocol

// Out collects what steps of a holder ask for. What a renewal comes to stands
// beside the other effects: there are drivers with many thousands of holders,
// and boxed as an Effect each of these would be allocated. They are to be done
// in this order: Kept, the renewal, Effects, Arm. What would not be in that
// order is among the Effects.
type Out struct {
	Kept     Instant // the stop time has moved to here; zero: it has not
	Renew    int     // the try of a renewal that is to be sent; zero: none is
	Deadline Instant // the renewal's
	Effects  []Effect
	Rearm    bool    // ask for a Tick
	Arm      Instant // then; zero: for none
}

// Reset empties o, and keeps its room.
func (o *Out) Reset() {
	clear(o.Effects)
	*o = Out{Effects: o.Effects[:0]}
}

// AppendTo appends everything, in order, as effects of a holder.
func (o *Out) AppendTo(all []Effect, h *Holder) []Effect {
	if o.Kept != 0 {
		all = append(all, Kept{o.Kept})
	}
	if o.Renew != 0 {
		all = append(all, Send{Op: OpRenew, Try: o.Renew, Grant: h.grant, Deadline: o.Deadline})
	}
	all = append(all, o.Effects...)
	if o.Rearm {
		all = append(all, Arm{o.Arm})
	}
	return all
}

// emit may be called between two steps too: the next one hands it over.
func (h *Holder) emit(e Effect) {
	if h.out == nil {
		h.out = &Out{}
	}
	h.out.Effects = append(h.out.Effects, e)
}

func (h *Holder) emitKept(stop Instant) {
	if o := h.out; o.Renew == 0 && len(o.Effects) == 0 {
		o.Kept = stop
		return
	}
	h.emit(Kept{stop})
}

func (h *Holder) emitRenewal(n int, deadline Instant) {
	if o := h.out; o.Renew == 0 && len(o.Effects) == 0 {
		o.Renew, o.Deadline = n, deadline
		return
	}
	h.emit(Send{Op: OpRenew, Try: n, Grant: h.grant, Deadline: deadline})
}
