package lockservice

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/world"
)

// chaos is a random world around a lock service: clients that acquire, renew,
// release and look, and a hand that crashes, pauses, cuts and slows.
type chaos struct {
	w       *world.World
	s       *Service
	rng     *rand.Rand
	clients []*world.Machine
	names   map[string]*told // looked up only
	nonce   int
	grants  int
	renews  int
	broken  []string
	sum     [32]byte
	buf     []byte
}

func newChaos(seed uint64, hash bool, without protocol.Rules) *chaos {
	w := world.New(seed)
	w.Net.Default = world.Link{Delay: 200 * time.Microsecond, Jitter: 4 * time.Millisecond, Loss: 2000, Twice: 1000, Reorder: 20_000}
	c := &chaos{w: w, rng: w.Rand("chaos"), names: map[string]*told{}}
	for i := range 4 {
		c.names[fmt.Sprintf("job%d", i)] = &told{}
	}
	w.Log.Watch(c.see)
	if hash {
		w.Log.Detail = true
		w.Log.Watch(func(e world.Event) {
			c.buf = e.AppendJSON(append(c.buf[:0], c.sum[:]...))
			c.sum = sha256.Sum256(c.buf)
		})
	}
	nodes := 3 + 2*c.rng.IntN(2)
	c.s = New(w, Config{Nodes: nodes, SnapshotEvery: 16, Lessor: protocol.LessorConfig{Without: without, Checkpoint: time.Duration(c.rng.IntN(2)) * 5 * time.Second}})
	for i, m := range c.s.Machines() {
		m.Disk.Cost, m.Disk.Jitter, m.Disk.Torn = time.Millisecond, 2*time.Millisecond, i%2 == 0
		m.Mono.SetRate(int64(c.rng.IntN(2001) - 1000))
	}
	for i := range 4 {
		c.clients = append(c.clients, w.Machine(fmt.Sprintf("c%d", i)))
	}
	w.After(0, world.OrderFault, c.client)
	w.After(3*time.Second, world.OrderFault, c.fault)
	return c
}

// told is what the clients were told of a name, and what the log says of it.
type told struct {
	grant    fence.Grant   // the last one that a client was told of; zero: ended, as far as they know
	current  fence.Token   // the last one that was created,
	created  time.Duration // and when
	until    time.Duration // by what was answered, the current one cannot be over before
	released fence.Token   // the last one that somebody has asked to end
}

// see checks that tokens grow, in the order in which they are created, and that
// nobody is granted what another was promised for longer.
func (c *chaos) see(e world.Event) {
	if e.What != "key-created" {
		return
	}
	c.grants++
	n := c.names[e.Name]
	if t := fence.Token(e.Token); t <= n.current {
		c.broken = append(c.broken, fmt.Sprintf("%s: token %d after %d", e.Name, t, n.current))
	}
	if c.w.Now() < n.until && n.released < n.current {
		c.broken = append(c.broken, fmt.Sprintf("%s: token %d at %v, but %d was promised until %v", e.Name, e.Token, c.w.Now(), n.current, n.until))
	}
	n.current, n.created, n.until = fence.Token(e.Token), c.w.Now(), 0
}

// promised notes an answer to an acquire or renewal that was sent at a time. The
// node's clock may be fast by a thousandth.
func (c *chaos) promised(name string, g authority.Grant, sent time.Duration) {
	n := c.names[name]
	until := sent + g.Length - g.Length/500
	switch {
	case g.Token == n.current:
		n.until = max(n.until, until)
	case g.Token > n.released && n.created < until:
		c.broken = append(c.broken, fmt.Sprintf("%s: %d was promised until %v, but %d came at %v", name, g.Token, until, n.current, n.created))
	}
}

func (c *chaos) client() {
	c.w.After(time.Duration(c.rng.ExpFloat64()*2e8), world.OrderFault, c.client)
	m := c.clients[c.rng.IntN(len(c.clients))]
	name := fmt.Sprintf("job%d", c.rng.IntN(4))
	n, sent, op := c.names[name], c.w.Now(), c.rng.IntN(20)
	ask := protocol.Ask{Op: protocol.OpRenew, Name: name, Grant: n.grant}
	switch {
	case n.grant.IsZero() || op == 0:
		c.nonce++
		ask = protocol.Ask{Op: protocol.OpAcquire, Name: name, Nonce: fmt.Sprintf("n%d", c.nonce), Length: time.Duration(2+c.rng.IntN(8)) * time.Second}
	case op == 1:
		ask.Op = protocol.OpRelease
		n.released = max(n.released, n.grant.Token)
	case op == 2:
		ask.Op = protocol.OpInspect
	}
	c.s.Do(m, ask, func(r protocol.Reply) { c.answered(ask, r, sent) })
}

func (c *chaos) answered(ask protocol.Ask, r protocol.Reply, sent time.Duration) {
	n := c.names[ask.Name]
	switch {
	case ask.Op == protocol.OpAcquire && r.Err == nil:
		n.grant = r.Grant.Grant
		c.promised(ask.Name, r.Grant, sent)
	case ask.Op == protocol.OpRenew && r.Err == nil:
		c.renews++
		c.promised(ask.Name, r.Grant, sent)
	case n.grant == ask.Grant && (ask.Op == protocol.OpRelease || errors.Is(r.Err, authority.ErrNotHeld)):
		n.grant = fence.Grant{}
	}
}

func (c *chaos) fault() {
	c.w.After(time.Duration(5e8+c.rng.Int64N(3e9)), world.OrderFault, c.fault)
	ms := c.s.Machines()
	m := ms[c.rng.IntN(len(ms))]
	switch c.rng.IntN(8) {
	case 0:
		for _, o := range ms {
			if o != m {
				c.w.Net.Cut(m, o)
			}
		}
	case 1:
		k := 1 + c.rng.IntN(len(ms)-1)
		c.w.Net.Split(ms[:k], ms[k:])
	case 2, 3:
		c.w.Net.Heal()
		for _, o := range ms {
			o.Disk.Cost = time.Millisecond
		}
	case 4:
		m.Disk.Cost = 50 * time.Millisecond
	case 5:
		m.Pause(time.Duration(c.rng.Int64N(5e9)) + 1)
	default:
		m.Crash()
		c.w.After(time.Duration(5e8+c.rng.Int64N(3e9)), world.OrderFault, m.Restart)
	}
}

// sumOfLogs is the sum of 200 logs. Every build has to give it, with -race and
// without. A change of what the service logs changes it: say so in the commit.
// (On other processors the last bit of a logarithm may differ.)
const sumOfLogs = "545b05a3fd758d73"

func runChaos(seed uint64, d time.Duration, hash bool) *chaos {
	c := newChaos(seed, hash, 0)
	c.w.Run(d)
	c.broken = append(c.broken, c.s.Violations...)
	return c
}

// TestTheSameSeedGivesTheSameBytes runs 200 seeds twice: one after the other on
// one processor, and many at once on several. Neither the scheduler nor raft's
// own randomness, one source for all of them, reaches the log.
func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	const seeds, length = 200, 12 * time.Second
	alone := make([]*chaos, seeds)
	func() {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		for i := range alone {
			alone[i] = runChaos(uint64(i), length, true)
		}
	}()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	beside := make([]*chaos, seeds)
	var wg sync.WaitGroup
	for k := range 2 {
		wg.Go(func() {
			for i := k; i < seeds; i += 2 {
				beside[i] = runChaos(uint64(i), length, true)
			}
		})
	}
	wg.Wait()

	all := sha256.New()
	sums := map[[32]byte]bool{}
	grants, renews, elections, installs := 0, 0, uint64(0), uint64(0)
	for i, a := range alone {
		b := beside[i]
		if a.sum != b.sum || a.w.Steps() != b.w.Steps() {
			t.Errorf("seed %d: %x after %d steps, then %x after %d", i, a.sum[:6], a.w.Steps(), b.sum[:6], b.w.Steps())
		}
		for _, v := range a.broken {
			t.Errorf("seed %d: %s", i, v)
		}
		sums[a.sum] = true
		all.Write(a.sum[:])
		grants += a.grants
		renews += a.renews
		elections += a.s.Elections
		installs += a.s.Installs
	}
	if sum := fmt.Sprintf("%x", all.Sum(nil)[:8]); runtime.GOARCH == "amd64" && sum != sumOfLogs {
		t.Errorf("the sum of %d logs is %s in this build, not %s", seeds, sum, sumOfLogs)
	}
	t.Logf("%x: %d seeds, %d different logs, %d grants, %d renewals, %d elections, %d installed snapshots",
		all.Sum(nil)[:8], seeds, len(sums), grants, renews, elections, installs)
	if len(sums) != seeds || grants < 2*seeds || renews < 10*seeds || elections < seeds || installs == 0 {
		t.Error("too little happens")
	}
}

// TestTheChecksSeeThatARuleIsOff: the worlds above would prove nothing if they
// could not break what a missing rule lets break.
func TestTheChecksSeeThatARuleIsOff(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		c := newChaos(seed, false, protocol.RuleFullLength)
		c.w.Run(20 * time.Second)
		if len(c.broken) > 0 {
			t.Logf("without full-length, seed %d: %s", seed, c.broken[0])
			return
		}
	}
	t.Error("without full-length, nothing was seen")
}

// TestALongRunDoesNotGrow: an explorer that runs overnight must not fill the
// memory of its machine.
func TestALongRunDoesNotGrow(t *testing.T) {
	c := newChaos(1, false, 0)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	c.w.Run(5 * time.Minute)
	early := heap()
	pending := c.w.Pending()
	c.w.Run(30 * time.Minute)
	late := heap()
	t.Logf("after 5 minutes %d kB, after 30 %d kB; %d and %d timers; %d grants, %d snapshots, %d elections",
		early/1024, late/1024, pending, c.w.Pending(), c.grants, c.s.Snapshots, c.s.Elections)
	if late > early+512*1024 {
		t.Errorf("the heap grew from %d to %d bytes", early, late)
	}
	if c.s.Snapshots == 0 || len(c.broken)+len(c.s.Violations) > 0 {
		t.Errorf("%d snapshots; %q %q", c.s.Snapshots, c.broken, c.s.Violations)
	}
	for _, n := range c.s.Nodes() {
		first, _ := n.disk.FirstIndex()
		last, _ := n.disk.LastIndex()
		if last-first > 2*256+keep {
			t.Errorf("%s keeps %d entries", n.Machine.Name, last-first)
		}
	}
	runtime.KeepAlive(c)
}

// BenchmarkSimulatedSeconds tells how many simulated seconds of three nodes, four
// clients and all faults one processor does in a second, and in a second that it
// had for this alone (on a machine that others use, the two differ).
func BenchmarkSimulatedSeconds(b *testing.B) {
	c := newChaos(1, false, 0)
	b.ReportAllocs()
	cpu := processor()
	for b.Loop() {
		c.w.Run(c.w.Now() + time.Second)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sim-s/s")
	b.ReportMetric(float64(b.N)/(processor()-cpu).Seconds(), "sim-s/cpu-s")
	b.ReportMetric(float64(c.w.Steps())/b.Elapsed().Seconds(), "steps/s")
}

// processor is the time that this process has used of its processors.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
