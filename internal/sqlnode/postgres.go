package sqlnode

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// PostgreSQL is a server whose database User owns everything of.
var PostgreSQL = &Kind{
	name:     "PostgreSQL",
	programs: []string{"postgres", "initdb"},
	debian:   "postgresql",
	places:   []string{"/usr/lib/postgresql/*/bin"},
	accounts: []string{"postgres", "nobody"},
	scheme:   "postgres",
	first:    "postgres",
	ready:    "database system is ready to accept connections",
	create:   createPostgres,
	command:  postgresCommand,
}

func createPostgres(ctx context.Context, n *Node) error {
	word := filepath.Join(n.dir, "password")
	if err := os.WriteFile(word, []byte(n.password+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(word)
	if err := n.account.own(word); err != nil {
		return err
	}
	return n.run(ctx, "initdb", "--pgdata="+n.data(), "--no-sync", "--no-instructions", "--username="+User, "--pwfile="+word,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C")
}

func postgresCommand(n *Node) []string {
	args := []string{n.programs["postgres"], "-D", n.data(), "-p", strconv.Itoa(n.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	if !n.o.Durable {
		// COMMIT still hands its record to the system: only the system's own death
		// may lose it.
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for _, s := range n.o.Settings {
		args = append(args, "-c", s)
	}
	return args
}
