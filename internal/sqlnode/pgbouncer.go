package sqlnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// PgBouncer is a pooler before a PostgreSQL server: in transaction mode, the
// connection of a client is another one of the server's in each transaction.
// passwords are of the users that may come through. It has no data and no
// password of its own; Options.Settings are those of its section [pgbouncer].
func PgBouncer(server *Node, passwords map[string]string) *Kind {
	return &Kind{
		name:     "PgBouncer",
		programs: []string{"pgbouncer"},
		debian:   "pgbouncer",
		places:   []string{"/usr/sbin"},
		accounts: []string{"postgres", "nobody"},
		scheme:   "postgres",
		first:    server.Database(),
		ready:    "process up",
		create: func(_ context.Context, n *Node) error {
			var all strings.Builder
			for user, word := range passwords {
				fmt.Fprintf(&all, "%q %q\n", user, word)
			}
			if err := os.WriteFile(n.bouncer("users"), []byte(all.String()), 0o600); err != nil {
				return err
			}
			return n.account.own(n.bouncer("users"))
		},
		command: func(n *Node) []string {
			return []string{n.programs["pgbouncer"], n.bouncer("ini")}
		},
		configure: func(n *Node) error {
			text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\npool_mode=transaction\nlisten_addr=127.0.0.1\nlisten_port=%d\n"+
				"unix_socket_dir=\nauth_type=scram-sha-256\nauth_file=%s\n%s\n", server.port, n.port, n.bouncer("users"), strings.Join(n.o.Settings, "\n"))
			if err := os.WriteFile(n.bouncer("ini"), []byte(text), 0o600); err != nil {
				return err
			}
			return n.account.own(n.bouncer("ini"))
		},
	}
}

func (n *Node) bouncer(file string) string { return filepath.Join(n.dir, "pgbouncer."+file) }
