//go:build !race

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // driver "pgx"

	"github.com/stint-dev/stint/backends/pgfence"
	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
)

// kind is a database that is measured.
type kind struct {
	server  *sqlnode.Kind
	driver  string
	dialect sqlfence.Dialect
}

var kinds = []kind{{sqlnode.PostgreSQL, "pgx", sqlfence.PostgreSQL}, {sqlnode.MariaDB, "mysql", sqlfence.MariaDB}}

// side is a server with what is measured on it.
type side struct {
	kind
	node  *sqlnode.Node
	db    *sql.DB
	f     *sqlfence.Fence
	claim fence.Claim
	token atomic.Int64

	trips *trips // nil: no COPY here
	pool  *pgxpool.Pool
	pg    *pgfence.Fence
	copy  fence.Claim
}

// tables are what is written to: charges has no index, so that the fence's own
// cost shows as much as it can.
var tables = []string{
	"CREATE TABLE charges (invoice BIGINT NOT NULL, cents BIGINT NOT NULL, token BIGINT NOT NULL)",
	"CREATE TABLE counter (id INT PRIMARY KEY, n BIGINT NOT NULL)",
	"INSERT INTO counter VALUES (1, 0), (2, 0)",
}

func open(ctx context.Context, k kind) (*side, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	n, err := sqlnode.Start(ctx, k.server, sqlnode.Options{Durable: true, Settings: []string{"max_connections=200"}})
	if err != nil {
		return nil, err
	}
	s := &side{kind: k, node: n}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *side) prepare(ctx context.Context) (err error) {
	dsn := s.node.URL(s.node.Database())
	if s.server == sqlnode.MariaDB {
		u, err := url.Parse(dsn)
		if err != nil {
			return err
		}
		dsn = fmt.Sprintf("%s@tcp(%s)%s", u.User, u.Host, u.Path)
	}
	if s.db, err = sql.Open(s.driver, dsn); err != nil {
		return err
	}
	s.db.SetMaxIdleConns(100)
	if s.f, err = sqlfence.New(s.db, sqlfence.Options{Dialect: s.dialect}); err != nil {
		return err
	}
	if err := s.f.Migrate(ctx); err != nil {
		return err
	}
	for _, t := range tables {
		if _, err := s.db.ExecContext(ctx, t); err != nil {
			return err
		}
	}
	if s.claim, err = s.f.Raise(ctx, "billing", s.grant()); err != nil || s.server != sqlnode.PostgreSQL {
		return err
	}
	c, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return err
	}
	s.trips = &trips{}
	c.ConnConfig.DialFunc = s.trips.dial
	c.MaxConns = 1
	if s.pool, err = pgxpool.NewWithConfig(ctx, c); err != nil {
		return err
	}
	if s.pg, err = pgfence.New(s.pool, pgfence.Options{}); err != nil {
		return err
	}
	s.copy, err = s.pg.Raise(ctx, "billing by COPY", s.grant())
	return err
}

func (s *side) grant() fence.Grant {
	return fence.Grant{Token: fence.Token(s.token.Add(1)), Nonce: "bench"}
}

func (s *side) close() error {
	var err error
	if s.pool != nil {
		s.pool.Close()
	}
	if s.db != nil {
		err = s.db.Close()
	}
	return errors.Join(err, s.node.Close())
}

// plain is a transaction as a program has it that knows no fence.
func (s *side) plain(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *side) fenced(ctx context.Context, fn func(*sql.Tx) error) error {
	return s.f.InTx(ctx, s.claim, nil, fn)
}

// q turns each ? into what the driver wants.
func (s *side) q(query string) string {
	if s.server != sqlnode.PostgreSQL {
		return query
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(query, "?") {
		if n > 0 {
			fmt.Fprint(&b, "$", n)
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}
