package sqltests

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlfence"
	"github.com/stint-dev/stint/internal/sqlnode"
	"github.com/stint-dev/stint/lab/sqlservers"
)

// A server whose disk is full: PostgreSQL refuses the rows that it has no room
// for, and dies where the room is missing to its log; MariaDB hangs, and dies
// some time later. Whatever happens, the claim knows in the end what was billed.
func TestAFullDiskBillsNothingTwiceAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, a := range alone {
		t.Run(a.kind.String(), func(t *testing.T) {
			t.Parallel()
			dir := smallDisk(t, "192m")
			server := sqlservers.Own(t, a.kind, sqlnode.Options{Dir: filepath.Join(dir, "server")})
			fullDisk(t, server, a.dialect, dir)
		})
	}
	t.Run("PostgreSQL's log", func(t *testing.T) {
		t.Parallel()
		server, dir := sqlservers.Own(t, sqlnode.PostgreSQL, sqlnode.Options{}), smallDisk(t, "64m")
		must(t, server.Stop())
		log, there := filepath.Join(server.Dir(), "data/pg_wal"), filepath.Join(dir, "pg_wal")
		must(t, exec.Command("cp", "-a", log, there).Run())
		must(t, os.RemoveAll(log))
		must(t, os.Symlink(there, log))
		must(t, server.Restart(background(t)))
		fullDisk(t, server, sqlfence.PostgreSQL, dir)
	})
}

func fullDisk(t *testing.T, server *sqlservers.Server, dialect sqlfence.Dialect, dir string) {
	d := server.Database(t, sqlservers.Options{})
	p := placeAt(d, dialect, d.DSN())
	p.Settle = time.Second
	s := p.fresh(t, nil)
	c := s.raise(t, job, grant(7, "a"))
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)
	refused := 0
	for ; ; refused++ { // large chunks, until there is no room
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := s.write(ctx, c, chunk(refused), noise(50_000), nil)
		cancel()
		if err != nil {
			t.Logf("chunk %d: %v", refused, err)
			if refused == 0 || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrSequence) {
				t.Fatal("not what was to be seen")
			}
			break
		}
	}
	must(t, os.Remove(ballast))
	for next := refused; next < refused+3; { // as a service manager would
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if err := s.bill(ctx, c, next, next+1); err == nil {
			next++
		} else if s.db.PingContext(ctx) != nil {
			must(t, server.Kill()) // it has died of it
			must(t, server.Restart(background(t)))
		}
		cancel()
	}
	must(t, s.f.Finish(background(t), c))
	s.wroteOnce(t, refused+3)
}

// noise is text that no server can store in less.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// smallDisk is a file system in memory with so much room.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stint-disk-") // not the test's own: the server is another user
	must(t, err)
	t.Cleanup(func() { must(t, os.Remove(dir)) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size="+size); err != nil {
		t.Fatalf("a small file system could not be mounted (%v): this test runs as root", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill leaves little room beside a file.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	var room syscall.Statfs_t
	must(t, syscall.Fstatfs(int(f.Fd()), &room))
	const spare = 6 << 20
	for left := int64(room.Bavail)*room.Bsize - spare; left > 0; {
		n, err := f.Write(make([]byte, min(left, 1<<20)))
		if left -= int64(n); err != nil {
			must(t, fmt.Errorf("filling the disk: %w", err))
		}
	}
}
