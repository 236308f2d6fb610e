package billing

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	_ "github.com/stint-dev/stint/backends/etcdlease"          // the authority of an etcd:// URL
	_ "github.com/stint-dev/stint/backends/sqlite/sqlitelease" // the authority of a sqlite:// URL
	"github.com/stint-dev/stint/fence/sqlfence"

	_ "github.com/ncruces/go-sqlite3/driver" // the store's driver
)

// RunWorker is a worker process: it bills what its configuration says, tells
// each step on out, and ends early when in is closed, because then its
// supervisor is gone.
func RunWorker(ctx context.Context, config string, in io.Reader, out io.Writer) error {
	var c Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("the worker's configuration cannot be read: %w", err)
	}
	if c.Store == "" {
		c.Store = os.Getenv(storeEnv)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	goOn := make(chan struct{}, 1)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(in); lines.Scan(); {
			goOn <- struct{}{}
		}
	}()
	lines := json.NewEncoder(out)
	s := &stage{who: c.Who, hold: c.Hold, goOn: goOn, quit: ctx.Done(), tell: func(e Event) {
		if lines.Encode(e) != nil {
			cancel()
		}
	}}
	err := work(ctx, c, s)
	s.at(failure(Event{Step: Ended}, err))
	if refused(err) {
		return nil // told, and nothing is wrong with this process
	}
	return err
}

// work puts a Worker together and runs it.
func work(ctx context.Context, c Config, s *stage) (err error) {
	store, err := OpenStore(c.Store, c.Prefix, c.limit())
	if err != nil {
		return err
	}
	db := store.DB
	defer db.Close()
	fences, err := store.Fences()
	if err != nil {
		return err
	}
	a, err := authority.Open(ctx, c.Authority)
	if err != nil {
		return err
	}
	defer a.Close()
	client, err := stint.New(s.watch(a), stint.Options{
		TTL:    c.TTL,
		Holder: fmt.Sprintf("worker %s, pid %d", c.Who, os.Getpid()),
		Waiting: func(st authority.State) {
			s.at(Event{Step: Waiting, Note: fmt.Sprintf("%s holds the lease with token %d", st.Holder, st.Grant.Token)})
		},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	w := &Worker{Client: client, Fence: fences, InTx: fences.InTx, Store: store, Who: c.Who, Pace: c.Pace, Limit: c.limit(), stage: s}
	if c.Unfenced {
		w.InTx = plain(db)
	}
	return w.Run(ctx)
}

// limit is how long one request to the store may take.
func (c Config) limit() time.Duration { return max(c.TTL, time.Second) }

// Fences is the fence table of a store in an SQLite file.
func Fences(db *sql.DB) (*sqlfence.Fence, error) {
	return sqlfence.New(db, sqlfence.Options{Dialect: sqlfence.SQLite})
}
