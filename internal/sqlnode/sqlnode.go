// Package sqlnode runs private database servers, PostgreSQL and MariaDB, each a
// child process on a free port of loopback with its data in a folder of its own:
// for stint demo and for the lab. It links no driver.
//
//	n, err := sqlnode.Start(ctx, sqlnode.PostgreSQL, sqlnode.Options{})
//	defer n.Close()
//	db, err := sql.Open("pgx", n.URL(n.Database()))
//
// Who may come in has to know a password made for this server. The server runs
// as an ordinary user, also where this process is root. On Linux it does not
// survive the process that started it; elsewhere Close ends it.
package sqlnode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// Kind is a database server.
type Kind struct {
	name     string
	programs []string // what it needs, the server first
	debian   string   // the package that has them
	places   []string // where Debian keeps them beside PATH; a pattern each
	accounts []string // users it may run as when this process is root
	scheme   string
	first    string // the database that is there from the start
	ready    string // what the server logs when it serves
	create   func(ctx context.Context, n *Node) error
	command  func(n *Node) []string
	// configure, if there is one, comes before each start, when the port is known.
	configure func(n *Node) error
}

// String is the name of the server's maker.
func (k *Kind) String() string { return k.name }

// User is who may do everything on a server of this package.
const User = "stint"

// Options sets up a server. The zero value is a server for tests: what was
// committed survives the death of its process, but not that of the machine.
type Options struct {
	// Dir is a folder for the data, which is made when it is missing; another
	// user must be able to reach it. Empty: a temporary one that Close removes.
	Dir string
	// From is a server of the same kind that was stopped, whose data is copied
	// instead of making a new database. Its password stays valid.
	From *Node
	// Durable has every commit wait for the disk.
	Durable bool
	// Settings are the server's own, each as name=value.
	Settings []string
}

// Node is one server. Its methods are not to be called at once, but for Addr,
// URL and Pid.
type Node struct {
	kind     *Kind
	o        Options
	dir      string
	ownDir   bool
	account  *account // nil: this process's own
	programs map[string]string
	port     int
	password string

	mu   sync.Mutex
	proc *process // nil: not running
}

// Start makes the data and starts a server, and returns when it serves. The
// error is a *MissingError if its programs are not installed.
func Start(ctx context.Context, k *Kind, o Options) (*Node, error) {
	n := &Node{kind: k, o: o, dir: o.Dir, password: rand.Text()}
	if o.From != nil {
		n.password = o.From.password
	}
	err := n.prepare(ctx)
	if err == nil {
		err = n.Restart(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) prepare(ctx context.Context) (err error) {
	if n.programs, err = n.kind.find(); err != nil {
		return err
	}
	if n.account, err = pick(n.kind.accounts); err != nil {
		return err
	}
	if n.dir == "" {
		n.ownDir = true
		if n.dir, err = os.MkdirTemp("", "stint-sql-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return err
	}
	if n.o.From == nil {
		if err := n.account.own(n.dir); err != nil {
			return err
		}
		return n.kind.create(ctx, n)
	}
	if err := os.CopyFS(n.data(), os.DirFS(n.o.From.data())); err != nil {
		return fmt.Errorf("sqlnode: copying the data: %w", err)
	}
	if err := os.Chmod(n.data(), 0o700); err != nil { // PostgreSQL refuses a wider one
		return err
	}
	return n.account.own(n.dir)
}

func (n *Node) data() string { return filepath.Join(n.dir, "data") }

// LogFile is what the server says.
func (n *Node) LogFile() string { return filepath.Join(n.dir, "log") }

// Dir is where the server keeps everything.
func (n *Node) Dir() string { return n.dir }

// Addr is host:port.
func (n *Node) Addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// Password is User's.
func (n *Node) Password() string { return n.password }

// Database is the one that is there from the start.
func (n *Node) Database() string { return n.kind.first }

// URL names a database on the server, as User: postgres://… or mysql://….
func (n *Node) URL(database string) string {
	u := url.URL{Scheme: n.kind.scheme, User: url.UserPassword(User, n.password), Host: n.Addr(), Path: "/" + database}
	if n.kind.scheme == "postgres" {
		u.RawQuery = "sslmode=disable"
	}
	return u.String()
}

// Close kills the server, and removes its data unless Options.Dir was set. It
// may be called again.
func (n *Node) Close() error {
	err := n.Kill()
	if n.ownDir && n.dir != "" {
		err = errors.Join(err, os.RemoveAll(n.dir))
	}
	return err
}
