package sqlservers

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/stint-dev/stint/internal/sqlnode"
)

// Options sets up a database.
type Options struct {
	// Isolation is what every transaction has that does not say otherwise:
	// "read committed", "repeatable read", "serializable"; empty: the server's
	// own default.
	Isolation string
	// Dictionary, on PostgreSQL, orders text as a dictionary does, where
	// otherwise its bytes do.
	Dictionary bool
}

// Database is one database, and the user that owns it.
type Database struct {
	*Server
	Name, User, Word string
	isolation        string
}

// Database makes a database for one test, and drops it at its end.
func (s *Server) Database(t TB, o Options) *Database {
	t.Helper()
	name := unique("test")
	d := &Database{Server: s, Name: name, User: name, Word: "word" + name, isolation: o.Isolation}
	if s.Kind == sqlnode.MariaDB {
		s.Admin(t, "CREATE DATABASE "+name,
			fmt.Sprintf("CREATE USER %s@'127.0.0.1' IDENTIFIED BY '%s'", d.User, d.Word),
			fmt.Sprintf("GRANT ALL PRIVILEGES ON %s.* TO %s@'127.0.0.1'", name, d.User))
	} else {
		locale := ""
		if o.Dictionary {
			locale = " LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
		}
		s.Admin(t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", d.User, d.Word),
			"CREATE DATABASE "+name+" OWNER "+d.User+" TEMPLATE template0"+locale)
		if o.Isolation != "" { // of the database, so that a pooler does not hide it
			s.Admin(t, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_isolation = '%s'", name, o.Isolation))
		}
	}
	t.Cleanup(func() {
		if s.own {
			return // it goes with its server, which may be down
		}
		if s.Kind == sqlnode.MariaDB {
			s.Admin(t, "DROP DATABASE "+name, "DROP USER "+d.User+"@'127.0.0.1'")
			return
		}
		s.Admin(t, "DROP DATABASE "+name+" WITH (FORCE)", "DROP ROLE "+d.User)
	})
	return d
}

// Driver is the name of a driver of database/sql that takes DSN.
func (d *Database) Driver() string {
	if d.Kind == sqlnode.MariaDB {
		return "mysql"
	}
	return "pgx"
}

// DSN is the database's, as its user.
func (d *Database) DSN() string { return d.At(d.Addr(), "") }

// At is the DSN by another way: the address of a gate or of a pooler. more are
// further parameters, as in a URL.
func (d *Database) At(addr, more string) string { return d.As(d.User, d.Word, addr, more) }

// As is At as another user.
func (d *Database) As(user, word, addr, more string) string {
	if d.Kind == sqlnode.MariaDB {
		c := d.mysqlConfig(user, word, d.Name, addr)
		if d.isolation != "" {
			c.Params = map[string]string{"tx_isolation": "'" + strings.ToUpper(strings.ReplaceAll(d.isolation, " ", "-")) + "'"}
		}
		dsn := c.FormatDSN()
		switch {
		case more == "":
			return dsn
		case strings.Contains(dsn, "?"):
			return dsn + "&" + more
		}
		return dsn + "?" + more
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, word), Host: addr, Path: "/" + d.Name, RawQuery: "sslmode=disable"}
	if more != "" {
		u.RawQuery += "&" + more
	}
	return u.String()
}
