// Package sqlurl opens the SQL database that a URL names:
// postgres://user:password@host:5432/database?sslmode=… and
// mysql://user:password@host:3306/database?tls=… (mariadb:// is the same).
package sqlurl

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence/sqlfence"
)

// Is reports whether the scheme is one of this package's.
func Is(scheme string) bool {
	switch scheme {
	case "postgres", "postgresql", "mysql", "mariadb":
		return true
	}
	return false
}

// Open makes the connection pool, and connects to nothing yet. The error is the
// URL's own; it matches authority.ErrInvalid and repeats no password.
func Open(raw string) (*sql.DB, sqlfence.Dialect, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %s is no URL", authority.ErrInvalid, authority.Redact(raw))
	}
	wrong := func(why any) error {
		return fmt.Errorf("%w: %s: %v", authority.ErrInvalid, authority.Redact(raw), why)
	}
	if Is(u.Scheme) && len(u.Path) < 2 {
		return nil, 0, wrong("it names no database: add /NAME after the host")
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		c, err := pgx.ParseConfig(raw)
		if err != nil {
			return nil, 0, wrong(reason(err))
		}
		return stdlib.OpenDB(*c), sqlfence.PostgreSQL, nil
	case "mysql", "mariadb":
		c, err := mysqlConfig(u)
		if err != nil {
			return nil, 0, wrong(err)
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, 0, wrong(err)
		}
		return sql.OpenDB(connector), sqlfence.MariaDB, nil
	}
	return nil, 0, wrong("it is none of postgres:// and mysql://")
}

// reason is what a parser complains of, without the URL, which holds the
// password.
func reason(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		if inner := errors.Unwrap(parse); inner != nil {
			return inner
		}
		return errors.New("its parameters cannot be read")
	}
	return err
}

func mysqlConfig(u *url.URL) (*mysql.Config, error) {
	c := mysql.NewConfig()
	if u.RawQuery != "" {
		var err error
		if c, err = mysql.ParseDSN("/?" + u.RawQuery); err != nil {
			return nil, err
		}
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	c.Net, c.Addr, c.DBName = "tcp", net.JoinHostPort(u.Hostname(), port), u.Path[1:]
	c.Logger = &mysql.NopLogger{} // every error comes back; what is written to standard error is stint's
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	return c, nil
}

// Arguments writes each ? of a query, which has none in a text, as the database
// wants it.
func Arguments(dialect sqlfence.Dialect, query string) string {
	if dialect != sqlfence.PostgreSQL {
		return query
	}
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprint(&b, "$", i)
		}
		b.WriteString(part)
	}
	return b.String()
}
