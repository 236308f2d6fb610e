package play

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/store"
	"github.com/stint-dev/stint/sim/world"
)

// Job is the name of the job where a scenario names none.
const Job = "billing"

// Ledger is what several read.
const Ledger = "ledger"

// stage is a world with everybody in it.
type stage struct {
	actor.Stage
	s     *script.Script
	w     *world.World
	store *world.Machine

	lock   lockService
	table  *actor.Table
	bucket *actor.Bucket
	item   *actor.Item
	flag   *actor.Flag
	items  *actor.Ledger
	shelf  *actor.Shelf
	record *store.Records
	bank   *store.Bank
	rows   int
	jobs   map[string]bool // that somebody works on

	workers    []*actor.Worker
	observers  []*actor.Observer
	candidates []*actor.Candidate
	sweepers   []*actor.Sweeper
	writers    []*actor.Writer
	takers     []*actor.Taker
	crowds     []*actor.Crowd
	books      []*actor.Book
	clients    []string
	verbs      map[string]func(what string, args []string) bool
}

// build makes the world of a scenario.
func build(s *script.Script, o Options) *stage {
	w := world.New(o.Seed)
	w.Log.Keep, w.Log.Detail = true, o.Detail
	st := &stage{s: s, w: w, jobs: map[string]bool{}, verbs: map[string]func(string, []string) bool{}}
	st.Stage = actor.Stage{World: w, Without: s.Without, Times: s.Times()}
	st.store = w.Machine("store")
	st.addLock()
	w.Net.Default = world.Link{Delay: s.Duration("delay"), Jitter: s.Duration("jitter"), Loss: s.Int("loss")}
	st.addStore()
	for _, p := range s.Actors {
		st.addActor(p)
	}
	st.links()
	for _, step := range s.Steps {
		w.At(step.At, world.OrderFault, func() { st.step(step) })
	}
	return st
}

func (st *stage) addStore() {
	p := st.s.Store
	st.rows = p.Int("rows", 5000)
	chunks := p.Int("chunks", 10)
	switch p.Kind {
	case "objects":
		st.bucket = actor.NewBucket(&st.Stage, st.store, chunks, st.rows)
		st.Store = st.bucket
	case "ledger":
		st.items = actor.NewLedger(&st.Stage, st.store, store.NewLedger(chunks, st.off()), st.rows)
		st.Store = st.items
	case "pages":
		marking := store.Marking(p.Text("marking"))
		if marking == "" {
			marking = store.TwoMarks
		}
		st.shelf = actor.NewShelf(&st.Stage, st.store, Ledger, store.NewPages(marking))
	case "records":
		n := p.Int("payments", 3)
		st.record, st.bank = store.NewRecords(n), store.NewBank(n, p.Text("bank") != "plain")
	case "table":
		off := st.off()
		off.Unique = p.Text("unique") == "yes"
		st.table = actor.NewTable(&st.Stage, st.store, store.NewTable(chunks, off), st.rows)
		st.table.Locking = actor.Locking{IdleLimit: p.Text("idle-limit") == "yes", ReadBefore: p.Text("raise-reads") == "before", Loose: p.Text("effects") == "loose"}
		st.verbs["store"] = st.bar
		for chunk := range p.Int("begun", 0) {
			st.table.Begun(Job, chunk+1)
		}
		st.Store = st.table
	}
}

// off are the store's rules that are left out.
func (st *stage) off() store.Off {
	out := st.s.Without
	return store.Off{
		Fence: out.Has(protocol.RuleFence), Equal: out.Has(protocol.RuleEqual), Nonce: out.Has(protocol.RuleNonce),
		Sequence: out.Has(protocol.RuleSequence), Marker: out.Has(protocol.RuleMarkerWithRaise), ExactOwner: out.Has(protocol.RuleExactOwner),
	}
}

// bar is an operator's: it shuts out a token and all before it.
func (st *stage) bar(what string, args []string) bool {
	if what != "bar" {
		return false
	}
	token, _ := strconv.Atoi(args[0])
	st.table.Bar(Job, fence.Token(token))
	row := st.table.Table.Read(Job)
	st.log("store", world.Event{What: "fence-barred", Name: Job, Token: uint64(token), Fence: uint64(row.Fence), State: string(row.State), Why: "by hand; nobody has a claim to it"})
	return true
}

// machine makes a machine with clocks of its own. No two machines' monotonic
// clocks can be compared, so each begins elsewhere.
func (st *stage) machine(p script.Part) *world.Machine {
	m := st.w.Machine(p.Name)
	m.Mono.Jump(time.Duration(len(st.w.Machines())) * 1000 * time.Second)
	m.Wall.Jump(p.Duration("wall", 0))
	if ppm := int64(p.Int("rate", 0)); ppm != 0 {
		m.Mono.SetRate(ppm)
		m.Wall.SetRate(ppm)
	}
	m.MonoSleeps = p.Text("sleeps") == "yes"
	return m
}

func (st *stage) addActor(p script.Part) {
	m := st.machine(p)
	switch p.Kind {
	case "worker":
		st.addWorker(p, m)
	case "sweeper":
		st.addSweeper(p, m)
	case "observer":
		st.addObserver(p, m)
	case "candidate":
		st.addCandidate(p, m)
	case "writer":
		st.addWriter(p, m)
	case "taker":
		t := actor.NewTaker(&st.Stage, m, strings.Split(p.Text("order"), "-"), p.Duration("work", time.Second))
		st.takers = append(st.takers, t)
		st.verbs[p.Name] = verbs{"start": t.Start}.do
	case "reader", "editor":
		st.addBook(p, m)
	case "payer":
		st.addPayer(p, m)
	case "crowd":
		st.addCrowd(p, m)
	case "client":
		st.addClient(p, m)
	}
}

// verbs are an actor's that take no argument.
type verbs map[string]func()

func (v verbs) do(what string, _ []string) bool {
	f := v[what]
	if f == nil {
		return false
	}
	f()
	return true
}

func (st *stage) addWorker(p script.Part, m *world.Machine) {
	job := p.Text("job")
	if job == "" {
		job = Job
	}
	st.jobs[job] = true
	w := actor.NewWorker(&st.Stage, m, actor.WorkerConfig{
		Job: job, RaiseAfter: p.Duration("raise-after", 0), RaiseLate: p.Duration("raise-late", time.Second),
		MarkAfter: p.Duration("mark-after", time.Second), First: p.Duration("first", 0), Build: p.Duration("build", 100*time.Millisecond),
		Send: p.Duration("send", 50*time.Millisecond), Pace: p.Duration("pace", time.Second), InTx: p.Duration("in-tx", 0), Finish: p.Duration("finish-after", 100*time.Millisecond),
		Release: p.Duration("release-after", 100*time.Millisecond), Retry: p.Duration("retry", 0), Again: p.Duration("again", 0),
		Chunks: p.Int("chunks", 0), BeatWithin: p.Duration("beat-within", 0), Sidecar: p.Text("beat") == "sidecar",
	})
	st.workers = append(st.workers, w)
	plain := verbs{"start": w.Start, "cancel": w.Cancel, "check": func() { w.CheckNow() }}
	st.verbs[p.Name] = func(what string, args []string) bool {
		switch what {
		case "lose-answer":
			w.LoseAnswer(args[0])
		case "freeze":
			d, _ := script.ParseTime(args[0])
			w.Freeze(d)
		default:
			return plain.do(what, args)
		}
		return true
	}
}

func (st *stage) addSweeper(p script.Part, m *world.Machine) {
	s := actor.NewSweeper(&st.Stage, m, st.table, protocol.SweeperConfig{
		Every: p.Duration("every", 0), Again: p.Duration("again", 0), Most: p.Int("brake", 0), Longest: st.Times.Length,
	})
	s.Held = func(name string) bool { return st.lock != nil && st.lock.Held(name) }
	st.sweepers = append(st.sweepers, s)
	st.verbs[p.Name] = verbs{"start": s.Start}.do
}

func (st *stage) addObserver(p script.Part, m *world.Machine) {
	times := st.Times
	times.Length = p.Duration("ttl", times.Length)
	o := actor.NewObserver(&st.Stage, m, st.item, protocol.ObserverConfig{
		Config:  protocol.Config{Name: st.item.Key, Times: times, Wait: p.Text("wait") != "no"},
		OwnWait: p.Text("claims-after") == "own",
		Holder:  p.Name, Poll: p.Duration("poll", 0), ClaimMargin: p.Duration("margin", 0),
	})
	st.observers = append(st.observers, o)
	st.verbs[p.Name] = func(what string, args []string) bool {
		if what == "lose-answer" {
			o.LoseAnswers++
			return true
		}
		return verbs{"start": o.Start, "release": o.Release, "check": func() { o.CheckNow() }}.do(what, args)
	}
}

func (st *stage) addCandidate(p script.Part, m *world.Machine) {
	n := p.Int("count", 1)
	var all []*actor.Candidate
	for i := range n {
		key := p.Name
		if n > 1 {
			key = fmt.Sprintf("%s%d", p.Name, i+1)
		}
		mine := m
		if n > 1 { // a machine keeps one watch for each election
			mine = st.w.Machine(key)
			mine.Mono.Jump(time.Duration(i+1) * time.Second)
		}
		c := actor.NewCandidate(&st.Stage, mine, Job, key)
		c.Quiet = n > 1
		c.Loops, c.Slow, c.Early = p.Text("loops") == "yes", p.Duration("slow", 0), p.Text("next-term") == "at-once"
		all = append(all, c)
	}
	st.candidates = append(st.candidates, all...)
	each := func(f func(*actor.Candidate)) func() {
		return func() {
			for _, c := range all {
				f(c)
			}
		}
	}
	plain := verbs{"start": each((*actor.Candidate).Start), "resign": each((*actor.Candidate).Resign)}
	st.verbs[p.Name] = func(what string, args []string) bool {
		if what == "pass" {
			all[0].Pass(args[0])
			return true
		}
		return plain.do(what, args)
	}
}

func (st *stage) addWriter(p script.Part, m *world.Machine) {
	times := st.Times
	times.Margin = p.Duration("margin", times.Margin)
	w := actor.NewWriter(&st.Stage, m, st.flag, actor.WriterConfig{
		Name: "ledger", Times: times, Refresh: p.Duration("refresh", times.Renew), Every: p.Duration("write", time.Second), Wait: p.Duration("wait", 0),
	})
	st.writers = append(st.writers, w)
	st.verbs[p.Name] = verbs{"start": w.Start, "promote": w.Promote}.do
}

// addBook puts a reader or a writer of the pages on a machine. Readers have a
// lease each: a lock service for readers and writers lets several in.
func (st *stage) addBook(p script.Part, m *world.Machine) {
	key := Ledger
	if p.Kind == "reader" {
		key += "/" + p.Name
	}
	b := actor.NewBook(&st.Stage, m, st.shelf, actor.BookConfig{
		Key: key, Writes: p.Kind == "editor", RaiseAfter: p.Duration("raise-after", 0),
		Every: p.Duration("every", time.Second), Send: p.Duration("send", 50*time.Millisecond), Pages: p.Int("pages", 3),
	})
	st.books = append(st.books, b)
	st.verbs[p.Name] = verbs{"start": b.Start}.do
}

func (st *stage) addPayer(p script.Part, m *world.Machine) {
	without := map[string]protocol.PayerRules{"repeat": protocol.PayTakesKey, "done": protocol.PayAnswered}
	payer := actor.NewPayer(&st.Stage, m, st.store, st.record, st.bank, actor.PayerConfig{
		Job: Job, Every: p.Duration("every", time.Second), Call: p.Duration("call", 100*time.Millisecond), Without: without[p.Text("pending")],
	})
	st.verbs[p.Name] = verbs{"start": payer.Start}.do
}

func (st *stage) addCrowd(p script.Part, m *world.Machine) {
	c := actor.NewCrowd(&st.Stage, m, st.table, p.Int("count", 1000))
	st.crowds = append(st.crowds, c)
	st.verbs[p.Name] = verbs{"start": c.Start}.do
}

func (st *stage) links() {
	for _, p := range st.s.Links {
		l := st.w.Net.Link(st.w.Find(p.Name), st.w.Find(p.Kind))
		l.Delay, l.Jitter = p.Duration("delay", l.Delay), p.Duration("jitter", l.Jitter)
		l.Loss, l.Twice, l.Reorder = p.Int("loss", l.Loss), p.Int("twice", l.Twice), p.Int("reorder", l.Reorder)
	}
}
