package sqlservers

import (
	"context"

	"github.com/stint-dev/stint/internal/sqlnode"
)

// Pooler is a PgBouncer in transaction mode before the server, for the users of
// the given databases. It takes its connections to the server in turn, so that
// no two transactions of a client are on the same one.
func (s *Server) Pooler(t TB, databases ...*Database) *sqlnode.Node {
	t.Helper()
	words := map[string]string{}
	for _, d := range databases {
		words[d.User] = d.Word
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := sqlnode.Start(ctx, sqlnode.PgBouncer(s.Node, words), sqlnode.Options{Settings: []string{
		"default_pool_size=20", "min_pool_size=4", "max_client_conn=200", "server_round_robin=1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}
