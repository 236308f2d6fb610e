package plant

// plant is a bug: a piece of a file of internal/protocol, and what takes its
// place. The piece has to be there exactly once.
type plant struct {
	name     string
	file     string
	old, new string
}

var plants = []plant{
	// The holder.
	{"skip the margin", "holder.go", "return c.Times.Margin", "return 0"},
	{"count from the receipt", "holder.go", "\treturn sent\n}", "\treturn now\n}"},
	{"take a late answer for a newer one", "holder.go", "h.renewed(a, sent.sentAt)", "h.renewed(a, h.now)"},
	{"take an answer before looking at the stop time", "holder.go", "if h.phase == holding && now >= h.stop {", "if h.phase == holding && now >= h.stop+1<<40 {"},
	{"forget older nonces", "holder.go", "n >= 1 && n <= h.n && h.nonce(n) == nonce", "n == h.n && h.nonce(n) == nonce"},
	{"never send the release", "holder.go", "case releasing:\n\t\tif h.now >= h.next {", "case releasing:\n\t\tif h.now >= h.next && h.released > 0 {"},
	{"release whatever is there", "release.go", "if h.cfg.Without.Has(RuleConditional) {\n\t\tg.Grant", "if true {\n\t\tg.Grant"},
	{"keep renewing after the release", "release.go", "\th.released++\n", "\th.released++\n\th.emit(Send{Op: OpRenew, Try: h.newTry(OpRenew), Grant: h.grant, Deadline: h.now.Add(h.cfg.Times.Timeout)})\n"},
	{"bring an ended lease to life again", "hold.go", "if h.phase != holding { // an", "if h.phase = holding; false { // an"},
	{"renew when it is too late", "hold.go", "h.next = base.Add(h.cfg.Times.Renew)\n\th.emit(Granted", "h.next = stop\n\th.emit(Granted"},
	{"renew without a sign of life", "hold.go", "w > 0 && h.now.Sub(h.beat) > w", "w < 0 && h.now.Sub(h.beat) > w"},
	{"use a grant that came too late", "acquire.go", "if h.now >= stop {\n", "if h.now >= stop+1<<40 {\n"},
	{"add the margin", "acquire.go", "base.Add(length - h.cfg.margin())", "base.Add(length + h.cfg.margin())"},
	{"wait without looking again", "acquire.go", "h.next = h.now.Add(min(max(s.Left, h.retryDelay()), h.cfg.Times.Timeout))", "h.next = 0"},
	{"take a place that was given back", "acquire.go", "case g.From != 0 && g.Token > h.spent:", "case g.From != 0:"},
	{"renew early what is silent", "hold.go", "h.next.Sub(h.now) > h.Early() || h.silent() {", "h.next.Sub(h.now) > h.Early() {"},
	{"keep a grant that nobody wants", "clear.go", "func (h *Holder) giveBack(g authority.Grant) {\n", "func (h *Holder) giveBack(g authority.Grant) {\n\tif h.n > 0 {\n\t\treturn\n\t}\n"},

	// The lessor.
	{"renew a lease for another's key", "lessor_lead.go", "k != nil && k.grant == a.Grant", "k != nil"},
	{"move the deadline of an expiring lease", "lessor_lead.go", "if ls == nil || ls.expiring {", "if ls == nil {"},
	{"confirm a renewal that was not made", "lessor_lead.go", "if r.Err == nil && !p.kept {", "if r.Err == nil && !p.kept && p.ID == 0 {"},
	{"go by old deadlines after a promotion", "lessor_lead.go", "if !l.cfg.Without.Has(RuleFullLength) {", "if l.cfg.Without == AllRules {"},
	{"keep a checkpoint over a renewal", "lessor_lead.go", "return (ls.left > 0 ||", "return ls.id == 0 && (ls.left > 0 ||"},
	{"expire at half time", "lessor_lead.go", "if l.now >= ls.deadline {", "if l.now >= ls.deadline.Add(-ls.length/2) {"},
	{"never expire", "lessor_lead.go", "if l.now >= ls.deadline {", "if l.now >= ls.deadline.Add(1<<50) {"},
	{"expire for an old leader", "lessor_apply.go", "if c.Term == ev.Term {", "if c.Term <= ev.Term {"},
	{"grant a key that is held", "lessor_apply.go", "if k.grant.Nonce != c.Grant.Nonce {", "if k.grant.Nonce == c.Grant.Nonce+\".\" {"},
	{"use a revision twice", "lessor_apply.go", "\tl.rev++\n\tk := key{", "\tk := key{"},
	{"delete without a guard", "lessor_apply.go", "case k != nil && (c.Grant.IsZero() || k.grant == c.Grant):", "case k != nil:"},
	{"pass without a floor", "lessor_apply.go", "\tl.raiseFloor(c.Name)\n\tl.drop(*old)", "\tl.drop(*old)"},
	{"forget revisions in a snapshot", "lessor_snapshot.go", "b = binary.AppendVarint(b, l.rev)", "b = binary.AppendVarint(b, l.rev/2)"},
	{"restore without a bump", "lessor_snapshot.go", "l.rev += bump", "l.rev += bump - bump"},
	{"restore with a bump that is too small", "lessor_snapshot.go", "if l.rev+bump < given {", "if l.rev+bump < given && bump < 0 {"},
	{"know nothing of who was passed", "lessor.go", "{ return l.floor(election(key)) }", "{ return 0 }"},

	// The observer.
	{"claim after half a lease", "observer_claim.go", "o.seenAt.Add(max(o.seen.Length, o.cfg.Longest))", "o.seenAt.Add(max(o.seen.Length, o.cfg.Longest) / 2)"},
	{"count from the first look", "observer.go", "= true, ev.Record, ev.Version, o.now, false", "= true, ev.Record, ev.Version, max(o.seenAt, 1), false"},
	{"claim with the old token", "observer_claim.go", "Token: last + 1", "Token: max(last, 1)"},
	{"delete the record on release", "observer_hold.go", "Delete: o.cfg.Without.Has(RuleKeepToken)", "Delete: true"},
	{"release over a successor", "observer_hold.go", "Any: any,", "Any: any || true,"},

	// The candidate.
	{"watch the leader's key", "candidate.go", "before := l.Keys[me-1]", "before := l.Keys[0]"},
	{"lead from the second place", "candidate.go", "case me > 0:", "case me > 1:"},
	{"lead below the floor", "candidate.go", "case l.Keys[0].Token < l.Floor &&", "case l.Keys[0].Token < 0 &&"},
	{"lead after a look that is too old", "candidate.go", "if c.again { // what", "if c.again && c.now == 0 { // what"},

	// The sweeper and the successor.
	{"sweep on first sight", "sweeper.go", "old := s.now.Sub(first.at) >= s.cfg.again()", "old := s.now.Sub(first.at) >= 0"},
	{"sweep before the longest lease", "sweeper_event.go", "return max(c.Again, c.Longest)", "return c.Again"},
	{"sweep what is held", "sweeper.go", "if s.state[i].Held {", "if s.state[i].Held && s.over {"},
	{"sweep a storm", "sweeper.go", "if len(due) <= s.cfg.Most {", "if len(due) <= s.cfg.Most+1<<20 {"},
	{"remember sightings over an outage", "sweeper.go", "\ts.away = true\n\ts.seen = map[string]sighting{}\n", "\ts.away = true\n"},
	{"write right after the flip", "successor.go", "s.next.set(s.now.Add(s.cfg.Wait))", "s.next.set(s.now)"},

	// The payer.
	{"repeat a payment whatever the bank takes", "payer.go", "case p.cfg.TakesKeys, p.cfg.Without", "case true || p.cfg.TakesKeys, p.cfg.Without"},
	{"take a begun payment for done", "payer.go", "case p.cfg.Without&PayAnswered != 0:", "case p.cfg.Without&PayAnswered == 0:"},
	{"call again without a key", "payer_call.go", "\t\tif p.cfg.TakesKeys {", "\t\tif true {"},
	{"believe the refusal of a repetition", "payer_call.go", "errors.Is(ev.Err, ErrNotDone) && p.calls == 1 && !p.doubt:", "errors.Is(ev.Err, ErrNotDone) && p.calls > 0:"},
	{"call after the stop time", "payer.go", "p.now < p.stop }", "p.now < p.stop+1<<40 }"},

	// The sharer.
	{"create one name twice in a transaction", "sharer_flight.go", "&& !s.off(ShareOneCreate) {", "&& s.off(ShareOneCreate) {"},
	{"settle a create by a read", "sharer_flight.go", "if !s.off(ShareGuard) {", "if s.off(ShareGuard) {"},
	{"count a lock from its create", "sharer.go", "min(sent, s.base)}", "sent}"},
	{"use a shared lease that stood idle", "sharer_flight.go", "case s.lease == 0 || s.idle():", "case s.lease == 0:"},
	{"prove every lock by a keep-alive", "sharer_round.go", "&& !s.off(ShareProof) {", "&& s.off(ShareProof) {"},
	{"take another round's answer", "sharer_round.go", "r.n != ev.Round && !s.off(ShareOneRound) {", "r.n != ev.Round && s.off(ShareOneRound) {"},
	{"keep a shared lock that nobody renews", "sharer.go", "\t\tif s.now >= s.end(l) {", "\t\tif s.now >= s.end(l).Add(1<<40) {"},
	{"delete a shared lock at its stop time", "sharer.go", "if s.off(ShareWorkReturn) {", "if !s.off(ShareWorkReturn) {"},
	{"delete a shared lock once only", "sharer.go", "\t\tif s.now >= d.next {", "\t\tif s.now < d.next {"},
	{"keep a key that nobody knows", "sharer_round.go", "if s.off(ShareUnknown) {", "if !s.off(ShareUnknown) {"},
	{"delete a key that is being created", "sharer_round.go", "if s.lock(key) == nil && !s.begun(key) {", "if s.lock(key) == nil {"},

	// The quorum.
	{"take a majority of those that answered", "quorum.go", "\tof := q.cfg.Masters\n", "\tof := len(q.cfg.Reach) - len(q.left)\n"},
	{"hold the time that acquiring took", "quorum.go", "if q.cfg.Without&QuorumElapsed != 0 {", "if q.cfg.Without&QuorumElapsed == 0 {"},
	{"give back to nobody", "quorum.go", "if q.cfg.Without&QuorumGiveBack == 0 {", "if q.cfg.Without&QuorumGiveBack != 0 {"},

	// The incumbent.
	{"count a writer's right from the answer", "incumbent.go", "i.reads[at].sent.Add(i.cfg.Length-i.cfg.Margin)", "i.now.Add(i.cfg.Length-i.cfg.Margin)"},
	{"write on under another's flag", "incumbent.go", "case ev.Grant != i.cfg.Grant:", "case ev.Grant != i.cfg.Grant && i.over:"},
	{"keep a writer's right beyond its time", "incumbent.go", "now < i.stop }", "now < i.stop.Add(1<<40) }"},

	// The writer of a manifest.
	{"commit to the manifest of another grant", "manifest.go", "!w.without.Has(RuleFence) && !w.seen.grant(w.grant)", "w.without.Has(RuleFence) && !w.seen.grant(w.grant)"},
	{"take a lost commit for a refused one", "manifest.go", "slices.Contains(stands.Keys, key))", "len(key) == 0)"},
	{"raise over what the manifest names", "manifest.go", "slices.Clone(seen.Keys)}, nil", "nil}, nil"},
	{"rewrite the manifest unconditionally", "manifest.go", "if w.without.Has(RuleFence) {\n\t\treturn \"\"", "if !w.without.Has(RuleFence) {\n\t\treturn \"\""},
}
