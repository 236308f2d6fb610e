package sqlnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// MariaDB is a server with the defaults of its makers, not of a distribution.
var MariaDB = &Kind{
	name:     "MariaDB",
	programs: []string{"mariadbd", "mariadb-install-db"},
	debian:   "mariadb-server",
	places:   []string{"/usr/sbin", "/usr/bin"},
	accounts: []string{"mysql", "nobody"},
	scheme:   "mysql",
	first:    "stint",
	ready:    "ready for connections",
	create:   createMariaDB,
	command:  mariadbCommand,

	configure: writeUsers,
}

// Smaller than the default of 96 MB, which every start would write.
const redoLog = "--innodb-log-file-size=16M"

func createMariaDB(ctx context.Context, n *Node) error {
	// A folder of its own for temporary tables: whoever starts removes those that
	// it finds, and in the shared one it finds those of others.
	return n.run(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+n.data(), "--tmpdir="+n.dir,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", redoLog)
}

// users is what the server runs at each start. The accounts that come with the
// data have no password and go.
const users = `CREATE USER IF NOT EXISTS '%[1]s'@'127.0.0.1' IDENTIFIED BY '%[2]s';
GRANT ALL PRIVILEGES ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;
DELETE FROM mysql.global_priv WHERE User IN ('', 'root');
FLUSH PRIVILEGES;
CREATE DATABASE IF NOT EXISTS %[1]s;
`

func mariadbCommand(n *Node) []string {
	args := []string{n.programs["mariadbd"], "--no-defaults", "--datadir=" + n.data(), "--bind-address=127.0.0.1", fmt.Sprint("--port=", n.port),
		"--socket=" + filepath.Join(n.dir, "socket"), "--pid-file=" + filepath.Join(n.dir, "pid"), "--tmpdir=" + n.dir,
		"--init-file=" + n.usersFile(), "--skip-name-resolve", "--skip-log-bin", "--innodb-buffer-pool-size=64M", redoLog}
	if !n.o.Durable {
		// COMMIT still hands its record to the system.
		args = append(args, "--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=0")
	}
	for _, s := range n.o.Settings {
		args = append(args, "--"+s)
	}
	return args
}

func (n *Node) usersFile() string { return filepath.Join(n.dir, "users.sql") }

func writeUsers(n *Node) error {
	if err := os.WriteFile(n.usersFile(), fmt.Appendf(nil, users, User, n.password), 0o600); err != nil {
		return err
	}
	return n.account.own(n.usersFile())
}
