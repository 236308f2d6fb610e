package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/billing"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/internal/sqlnode"
)

// demoServers are the stores that the demo starts by itself.
var demoServers = map[string]*sqlnode.Kind{"postgres": sqlnode.PostgreSQL, "mariadb": sqlnode.MariaDB}

// checkStore refuses a --store that cannot be meant.
func checkStore(store, see string) error {
	scheme, _, isURL := strings.Cut(store, "://")
	switch {
	case store == "sqlite", demoServers[store] != nil:
		return nil
	case !isURL:
		return report.Usage("--store "+store+": it is sqlite, postgres, mariadb, or the URL of a database of yours", see)
	case !sqlurl.Is(scheme):
		return report.Usage("--store "+authority.Redact(store)+": the URL begins with postgres:// or mysql://", see)
	}
	db, _, err := sqlurl.Open(store)
	if err != nil {
		return report.Usage("--store: "+err.Error(), see)
	}
	return db.Close()
}

// demoStore is the store of one run of the demo, other than a file.
type demoStore struct {
	node *sqlnode.Node // nil: the user's own
	url  string
	said string // for people
	// prefix begins the names of all tables in a database of the user's. It is
	// new in each run, so that two of them, or what one that was killed has left,
	// are never in each other's way.
	prefix string
}

// openStore starts the server that --store asks for, or takes the user's.
func openStore(ctx context.Context, f demoFlags) (*demoStore, error) {
	k := demoServers[f.store]
	switch {
	case f.store == "sqlite":
		return nil, nil
	case k == nil:
		prefix := "stint_demo_" + strings.ToLower(rand.Text()[:6]) + "_"
		return &demoStore{url: f.store, prefix: prefix, said: authority.Redact(f.store) + ", tables " + prefix + "…"}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the server took too long to start"))
	defer cancel()
	dir, err := os.MkdirTemp("", "stint-demo-"+f.store+"-")
	if err != nil {
		return nil, err
	}
	n, err := sqlnode.Start(ctx, k, sqlnode.Options{Dir: dir})
	if err != nil {
		if context.Cause(ctx) != nil {
			err = context.Cause(ctx)
		}
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	said := fmt.Sprintf("%s, a private server at %s, its files in %s", k, n.Addr(), dir)
	return &demoStore{node: n, url: n.URL(n.Database()), said: said}, nil
}

// close ends the private server, or drops the tables in a user's database; with
// keep the files, or the tables, stay.
func (s *demoStore) close(keep bool) error {
	switch {
	case s == nil:
		return nil
	case s.node != nil && keep:
		return s.node.Stop()
	case s.node != nil:
		return errors.Join(s.node.Close(), os.RemoveAll(s.node.Dir()))
	case keep:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := billing.DropAt(ctx, s.url, s.prefix); err != nil {
		return fmt.Errorf("the demo's tables could not be dropped, their names begin with %s: %w", s.prefix, err)
	}
	return nil
}
