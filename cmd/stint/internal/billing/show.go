package billing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/stint-dev/stint/fence"
)

// Show is one run of the story.
type Show struct {
	Dir      string        // an empty folder for the two databases
	Worker   []string      // the command line that runs a worker
	TTL      time.Duration // lease length; everything else is in proportion
	Unfenced bool          //
	Tell     func(Event)   // called in order, by one goroutine
	Store    string        // URL of the store; empty: a file in Dir
	Prefix   string        // of the store's tables
	Nodes    Nodes         // of an authority with a leader, who is killed while B holds; nil: a file in Dir

	chunks, perChunk int // for tests; zero: the story's
	events           chan Event
	over             chan struct{}
	cast             Cast
	start            time.Time
	a                *Process
	alarm            <-chan time.Time // A has been frozen for long enough
	slept, passed    bool             // ... and somebody else has billed A's chunk
	woken            bool
	zombie           fence.Token // A's token when it was frozen
	second, third    bool        // B and C were started
	exited           int
	failover         failover
}

const (
	storyChunks   = 10
	storyPerChunk = 5000
	heldChunk     = 2 // what A has in its buffer when it is frozen
)

// StoreFile is the user's database of a run in dir.
func StoreFile(dir string) string { return filepath.Join(dir, "store.db") }

// place is where the run's store is.
func (s *Show) place() string {
	if s.Store != "" {
		return s.Store
	}
	return StoreFile(s.Dir)
}

// AuthorityURL is the authority of a run in dir.
func AuthorityURL(dir string) string {
	return (&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, "leases.db")}).String()
}

// Authority is the URL of the run's authority.
func (s *Show) Authority() string {
	if s.Nodes != nil {
		return s.Nodes.URL()
	}
	return AuthorityURL(s.Dir)
}

// Run plays the story and counts the invoices afterwards. When it returns, no
// process is left. Any error but the verdict's means that the story could not
// be played.
func (s *Show) Run(ctx context.Context) (Count, error) {
	if s.chunks == 0 {
		s.chunks, s.perChunk = storyChunks, storyPerChunk
	}
	if err := PrepareAt(ctx, s.place(), s.Prefix, s.chunks, s.perChunk); err != nil {
		return Count{}, fmt.Errorf("the demo's database could not be made: %w", err)
	}
	// Ten leases are more than the whole story takes; a machine that is so busy
	// that this is not enough says so instead of hanging.
	ctx, cancel := context.WithTimeoutCause(ctx, 10*s.TTL+time.Minute, errors.New("the workers did not come to an end"))
	defer cancel()
	s.events, s.over, s.start = make(chan Event, 64), make(chan struct{}), time.Now()
	defer s.cast.Kill()
	defer func() {
		cancel()
		close(s.over)
		s.failover.asking.Wait()
	}()
	s.failover.ctx = ctx
	if err := s.play(ctx); err != nil {
		return Count{}, err
	}
	count, err := s.count(ctx)
	if err == nil {
		s.tell(Event{Step: Verdict, Count: &count})
	}
	return count, err
}

// Prepare is PrepareAt for an SQLite file.
func Prepare(ctx context.Context, path string, chunks, perChunk int) error {
	return PrepareAt(ctx, path, "", chunks, perChunk)
}

// PrepareAt makes the user's database: invoices, charges, and the fence's table.
func PrepareAt(ctx context.Context, place, prefix string, chunks, perChunk int) error {
	store, err := OpenStore(place, prefix, time.Minute)
	if err != nil {
		return err
	}
	defer store.DB.Close()
	fences, err := store.Fences()
	if err != nil {
		return err
	}
	if err := fences.Migrate(ctx); err != nil {
		return err
	}
	return store.Create(ctx, chunks, perChunk)
}

func (s *Show) count(ctx context.Context) (Count, error) {
	store, err := OpenStore(s.place(), s.Prefix, time.Minute)
	if err != nil {
		return Count{}, err
	}
	defer store.DB.Close()
	return store.Count(ctx)
}

// play lets A begin, and then goes by what the workers say.
func (s *Show) play(ctx context.Context) error {
	a, err := s.enter("A", Hold{Step: Checked, Chunk: heldChunk})
	if err != nil {
		return err
	}
	s.a = a
	for s.exited < len(lanes) {
		select {
		case e := <-s.events:
			err = s.on(e)
		case <-s.alarm:
			s.alarm, s.slept = nil, true
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err == nil && s.slept && s.passed && !s.woken {
			err = s.wake()
		}
		if err != nil {
			return err
		}
	}
	if s.Nodes != nil && !s.failover.survived {
		return errors.New("worker B lost its lease with the leader that was killed: is the machine too busy to elect another one in time?")
	}
	if !s.woken {
		return errors.New("worker A lost its lease before it could be frozen, so there was no late write to see")
	}
	return nil
}

// on tells an event, and does what the story asks for then.
func (s *Show) on(e Event) error {
	e.Late = s.woken && e.Step == AfterCommit && e.Err == "" && e.Token == s.zombie
	s.tell(e)
	if err := s.follow(e); err != nil {
		return err
	}
	switch {
	case e.Step == AfterAcquire && !s.second:
		s.second = true
		return s.enterRival("B")
	case (e.Step == Waiting || e.Who == "B" && e.Step == AfterAcquire) && !s.third: // B stands in line, before C
		s.third = true
		return s.enterRival("C")
	case e.Held:
		s.zombie = e.Token
		return s.freeze()
	case e.Step == AfterCommit && e.Who != "A" && e.Chunk >= heldChunk && e.Err == "":
		s.passed = true
	case e.Step == Exited && e.Err != "":
		return errors.New(e.Err)
	case e.Step == Exited:
		s.exited++
	}
	return nil
}

func (s *Show) tell(e Event) {
	e.T = time.Since(s.start).Seconds()
	s.Tell(e)
}

func (s *Show) enterRival(who string) error {
	_, err := s.enter(who, Hold{})
	return err
}

// enter starts a worker process.
func (s *Show) enter(who string, h Hold) (*Process, error) {
	p, err := Start(s.Worker, Config{
		Who: who, Store: s.place(), Prefix: s.Prefix, Authority: s.Authority(),
		TTL: s.TTL, Pace: s.TTL / 5, Unfenced: s.Unfenced, Hold: h,
	}, func(e Event) {
		select {
		case s.events <- e:
		case <-s.over:
		}
	})
	if err != nil {
		return nil, fmt.Errorf("worker %s could not be started: %w", who, err)
	}
	s.cast.Add(p)
	return p, nil
}

// freeze stops A between its check and its write, for one and a half leases and
// until somebody else has billed the chunk.
func (s *Show) freeze() error {
	if err := s.a.Freeze(); err != nil {
		return err
	}
	long := s.TTL * 3 / 2
	s.alarm = time.After(long)
	s.tell(Event{Who: "A", Step: Frozen, Token: s.zombie, Chunk: heldChunk, Note: fmt.Sprintf("for one and a half leases, %v", long)})
	return nil
}

func (s *Show) wake() error {
	s.woken = true
	s.tell(Event{Who: "A", Step: Woken, Token: s.zombie})
	if err := s.a.Go(); err != nil {
		return err
	}
	return s.a.Thaw()
}
