package sqlcore

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// server tells what a database is, and which of its versions has what the
// dialect's statements use.
type server struct {
	query  string                     // gives its version as a string
	serves func(version string) error // nil: it has all
}

// unfit tells another product, or too old a version, in words: a syntax error in
// the middle of a migration tells nobody why.
func (e *Engine) unfit(ctx context.Context, tx Tx) (unfit, err error) {
	if e.d.server.query == "" {
		return nil, nil
	}
	var version string
	if err := one(ctx, tx, e.d.server.query, nil, &version); err != nil {
		return nil, err
	}
	return e.d.server.serves(version), nil
}

var postgresServer = server{"SELECT current_setting('server_version_num')", func(version string) error {
	n, err := strconv.Atoi(version)
	if err == nil && n >= 130000 {
		return nil
	}
	return fmt.Errorf("the server says that its version number is %s. The fence needs PostgreSQL 13 or later (130000)", version)
}}

var mariaVersion = regexp.MustCompile(`(\d+)\.(\d+)\.\d+-MariaDB`)

// What MariaDB calls itself may begin with 5.5.5-, for old replicas.
var mariaServer = server{"SELECT VERSION()", func(version string) error {
	found := mariaVersion.FindStringSubmatch(version)
	if found == nil && !strings.Contains(version, "MariaDB") {
		return fmt.Errorf("the server is %s, and no MariaDB. The fence uses what only MariaDB has (RETURNING, SET STATEMENT, idle_transaction_timeout): "+
			"there is no fence for MySQL", version)
	}
	if found != nil {
		major, _ := strconv.Atoi(found[1]) // digits
		minor, _ := strconv.Atoi(found[2])
		if major > 10 || major == 10 && minor >= 6 {
			return nil
		}
	}
	return fmt.Errorf("the server is %s. The fence needs MariaDB 10.6 or later", version)
}}
