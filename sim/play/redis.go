package play

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/internal/protocol"
	"github.com/stint-dev/stint/sim/actor"
	"github.com/stint-dev/stint/sim/lockservice/redis"
	"github.com/stint-dev/stint/sim/script"
	"github.com/stint-dev/stint/sim/world"
)

// cache is a lock on a primary with an asynchronous replica.
type cache struct {
	st *stage
	c  *redis.Cache
}

func newCache(st *stage, p script.Part) *cache {
	st.Weak = p.Text("strings") == "weak"
	return &cache{st, redis.NewCache(st.w, redis.CacheConfig{Lag: p.Duration("lag", 100*time.Millisecond), Without: st.s.Without})}
}

// Call is Lock's.
func (c *cache) Call(from *world.Machine, r actor.Request, answer func(protocol.Answer)) {
	c.c.Do(from, ask(from, r), func(reply protocol.Reply) {
		answer(protocol.Answer{Op: reply.Op, Grant: reply.Grant, State: reply.State, Err: reply.Err})
	})
}

// Do is lockService's.
func (c *cache) Do(what string, args []string) {
	switch what {
	case "use":
		n, _ := strconv.Atoi(args[0])
		c.c.Do(c.c.Primary(), protocol.Ask{Op: protocol.OpBump, By: int64(n)}, func(protocol.Reply) {})
	case "failover":
		c.c.Promote()
	}
}

// Held is lockService's.
func (c *cache) Held(name string) bool { return c.c.State(name).Held }

// Describe is lockService's.
func (c *cache) Describe(name string) string {
	s := c.c.State(name)
	if !s.Held {
		return fmt.Sprintf("cache: counter %d, free", c.c.Counter())
	}
	return fmt.Sprintf("cache: counter %d, held with %d", c.c.Counter(), s.Grant.Token)
}

// masters are independent ones.
type masters struct {
	actor.NoLock
	st *stage
	r  *redis.Redlock
}

func newMasters(st *stage, p script.Part) *masters {
	return &masters{st: st, r: redis.NewRedlock(st.w, redis.RedlockConfig{Masters: p.Int("nodes", 0)})}
}

// Do is lockService's: there is nothing to be done to all masters at once.
func (m *masters) Do(string, []string) {}

// Held is lockService's.
func (m *masters) Held(string) bool { return false }

// Describe is lockService's.
func (m *masters) Describe(string) string { return "five masters" }

// addClient puts a client of the masters on a machine. It asks those that its
// parameter lists, or all.
func (st *stage) addClient(p script.Part, m *world.Machine) {
	all, ok := st.lock.(*masters)
	if !ok {
		return
	}
	var list []int
	for _, c := range p.Text("masters") {
		list = append(list, int(c-'0'))
	}
	length := p.Duration("ttl", st.Times.Length)
	start := func() {
		sent := st.w.Now()
		all.r.Acquire(m, Job, p.Name, length, list, func(r protocol.Counted) {
			if !r.Held {
				st.log(m.Name, world.Event{What: "refused", Name: Job, Count: len(r.Got), Why: "no majority: only " + numbers(r.Got)})
				return
			}
			st.log(m.Name, world.Event{What: "granted", Name: Job, Count: len(r.Got), Stop: sent + length, Why: "by the masters " + numbers(r.Got)})
		})
	}
	release := func() {
		all.r.Release(m, Job, p.Name)
		st.log(m.Name, world.Event{What: "released", Name: Job})
	}
	st.verbs[p.Name] = verbs{"start": start, "release": release}.do
	st.clients = append(st.clients, p.Name)
}

func numbers(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	var parts []string
	for _, n := range list {
		parts = append(parts, strconv.Itoa(n))
	}
	return strings.Join(parts, ", ")
}
