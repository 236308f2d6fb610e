package sqlurl

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/fence/sqlfence"
)

func TestAURLNamesItsDatabase(t *testing.T) {
	for raw, want := range map[string]sqlfence.Dialect{
		"postgres://a:b@localhost/db?sslmode=disable": sqlfence.PostgreSQL,
		"postgresql://localhost:5433/db":              sqlfence.PostgreSQL,
		"mysql://a:b@localhost/db":                    sqlfence.MariaDB,
		"mariadb://a:b@[::1]:3307/db?tls=preferred":   sqlfence.MariaDB,
	} {
		db, got, err := Open(raw)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", raw, got, err)
			continue
		}
		db.Close()
	}
}

func TestAMySQLURLKeepsEveryPart(t *testing.T) {
	u, err := url.Parse("mysql://a%40b:p%3Aw@db.example/shop?tx_isolation=%27SERIALIZABLE%27&timeout=3s")
	if err != nil {
		t.Fatal(err)
	}
	c, err := mysqlConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	if c.User != "a@b" || c.Passwd != "p:w" || c.Addr != "db.example:3306" || c.DBName != "shop" ||
		c.Params["tx_isolation"] != "'SERIALIZABLE'" || c.Timeout.String() != "3s" {
		t.Errorf("%+v", c)
	}
}

func TestAWrongURLIsToldWithoutItsPassword(t *testing.T) {
	for _, raw := range []string{
		"postgres://a:secret@localhost", "mysql://a:secret@localhost/", "oracle://a:secret@localhost/db",
		"postgres://a:secret@localhost:port/db", "postgres://a:secret@localhost/db?sslmode=maybe", "mysql://a:secret@localhost/db?timeout=soon",
	} {
		db, _, err := Open(raw)
		if err == nil {
			db.Close()
			t.Errorf("%s was accepted", raw)
			continue
		}
		if !errors.Is(err, authority.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestArgumentsAreWrittenAsTheDatabaseWantsThem(t *testing.T) {
	const query = "SELECT ? WHERE a = ?"
	for dialect, want := range map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "SELECT $1 WHERE a = $2", sqlfence.MariaDB: query, sqlfence.SQLite: query,
	} {
		if got := Arguments(dialect, query); got != want {
			t.Errorf("%v: %s; want %s", dialect, got, want)
		}
	}
}
