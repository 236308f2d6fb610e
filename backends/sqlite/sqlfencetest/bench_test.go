package sqlfencetest

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
)

// What the fence adds to a transaction of one insert: in WAL, with the commit
// on the disk (synchronous=FULL) and without waiting for it.
func BenchmarkTransaction(b *testing.B) {
	for _, sync := range []string{"full", "off"} {
		dsn := "file:" + filepath.Join(b.TempDir(), "store.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(" + sync + ")"
		s := fresh(b, dsn, nil)
		ctx := context.Background()
		insert := func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO data (k, v) VALUES ('k', 'v')")
			return err
		}
		b.Run("sync="+sync+"/unfenced", func(b *testing.B) {
			for b.Loop() {
				tx, err := s.db.BeginTx(ctx, nil)
				must(b, err)
				must(b, insert(tx))
				must(b, tx.Commit())
			}
		})
		c, err := s.f.Raise(ctx, job, grant(7, "a"))
		must(b, err)
		b.Run("sync="+sync+"/fenced", func(b *testing.B) {
			for b.Loop() {
				must(b, s.f.InTx(ctx, c, nil, insert))
			}
		})
	}
}
