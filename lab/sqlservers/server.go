package sqlservers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"

	"github.com/stint-dev/stint/internal/sqlnode"
)

// TB is the part of testing.TB that this package needs.
type TB interface {
	Helper()
	Context() context.Context
	Fatal(...any)
	Error(...any)
	Cleanup(func())
}

// Server is a database server under the control of this process.
type Server struct {
	*sqlnode.Node
	Kind  *sqlnode.Kind
	own   bool    // of one test
	admin *sql.DB // as sqlnode.User
}

// patience is what a server has for starting on a busy machine.
const patience = time.Minute

// shared are the servers of the whole process, started when first asked for.
var shared struct {
	sync.Mutex
	servers   map[*sqlnode.Kind]*Server
	templates map[*sqlnode.Kind]*sqlnode.Node // stopped; what others are copied from
}

// PostgreSQL is the process's shared server.
func PostgreSQL(t TB) *Server { t.Helper(); return sharedServer(t, sqlnode.PostgreSQL) }

// MariaDB is the process's shared server.
func MariaDB(t TB) *Server { t.Helper(); return sharedServer(t, sqlnode.MariaDB) }

func sharedServer(t TB, k *sqlnode.Kind) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if s := shared.servers[k]; s != nil {
		return s
	}
	s, err := start(t.Context(), k, sqlnode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if shared.servers == nil {
		shared.servers = map[*sqlnode.Kind]*Server{}
	}
	shared.servers[k] = s
	return s
}

// Own starts a server for one test, which may do with it what it likes.
func Own(t TB, k *sqlnode.Kind, o sqlnode.Options) *Server {
	t.Helper()
	shared.Lock()
	s, err := start(t.Context(), k, o)
	shared.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	s.own = true
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// connections is room for the tests that run at once.
const connections = "max_connections=400"

// start copies a template, which is made first where there is none. shared is
// locked.
func start(ctx context.Context, k *sqlnode.Kind, o sqlnode.Options) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if shared.templates[k] == nil {
		n, err := sqlnode.Start(ctx, k, sqlnode.Options{})
		if err != nil {
			return nil, err
		}
		if shared.templates == nil {
			shared.templates = map[*sqlnode.Kind]*sqlnode.Node{}
		}
		shared.templates[k] = n
		if err := n.Stop(); err != nil {
			return nil, err
		}
	}
	o.From = shared.templates[k]
	o.Settings = append([]string{connections}, o.Settings...)
	n, err := sqlnode.Start(ctx, k, o)
	if err != nil {
		return nil, err
	}
	s := &Server{Node: n, Kind: k}
	if k == sqlnode.MariaDB {
		s.admin, err = sql.Open("mysql", s.mysqlConfig(sqlnode.User, n.Password(), n.Database(), n.Addr()).FormatDSN())
	} else {
		s.admin, err = sql.Open("pgx", n.URL(n.Database()))
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	s.admin.SetMaxIdleConns(1)
	return s, nil
}

func (s *Server) mysqlConfig(user, password, database, addr string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = user, password, "tcp", addr, database
	return c
}

// quiet keeps the driver from telling about connections that tests have cut.
type quiet struct{}

func (quiet) Print(...any) {}

func init() {
	if err := mysql.SetLogger(quiet{}); err != nil {
		panic(err)
	}
}

// Close ends the server.
func (s *Server) Close() error { return errors.Join(s.admin.Close(), s.Node.Close()) }

// Admin runs statements as somebody who may do everything.
func (s *Server) Admin(t TB, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for _, st := range statements {
		if _, err := s.admin.ExecContext(ctx, st); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", st, err))
		}
	}
}

// AdminDB is for what Admin does not do, such as looking.
func (s *Server) AdminDB() *sql.DB { return s.admin }

// Count is a query's one number, as somebody who may see everything.
func (s *Server) Count(t TB, query string, args ...any) (n int) {
	t.Helper()
	if err := s.admin.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", query, err))
	}
	return n
}

// Close ends the shared servers, for programs that are not tests.
func Close() error {
	shared.Lock()
	defer shared.Unlock()
	var errs []error
	for k, s := range shared.servers {
		errs = append(errs, s.Close())
		delete(shared.servers, k)
	}
	for k, n := range shared.templates {
		errs = append(errs, n.Close())
		delete(shared.templates, k)
	}
	return errors.Join(errs...)
}

// Runner is *testing.M.
type Runner interface{ Run() int }

type closing struct{ m Runner }

// Closing runs the tests of m and then ends the shared servers, so that a
// search for leaked goroutines afterwards finds none of theirs.
func Closing(m Runner) Runner { return closing{m} }

func (c closing) Run() int {
	code := c.m.Run()
	if err := Close(); err != nil && code == 0 {
		panic(err)
	}
	return code
}

var serial atomic.Int64

// unique is a name that nothing else has in this process.
func unique(stem string) string { return fmt.Sprintf("%s_%d", strings.ToLower(stem), serial.Add(1)) }
