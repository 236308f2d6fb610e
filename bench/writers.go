//go:build !race

package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // driver "sqlite3"
	_ "modernc.org/sqlite"                   // driver "sqlite"
)

// The two drivers that need no C compiler, under the names that they register.
var drivers = []struct{ label, name string }{
	{"ncruces/go-sqlite3", "sqlite3"},
	{"modernc.org/sqlite", "sqlite"},
}

// dsn gives both drivers the same settings. An authority must not forget a
// grant that it has handed out, hence synchronous=FULL.
func dsn(path string) string {
	return "file:" + path + "?_txlock=immediate&_pragma=busy_timeout(10000)" +
		"&_pragma=journal_mode(wal)&_pragma=synchronous(full)"
}

// writerResult is what one writing process says when its time is over.
type writerResult struct {
	Commits int
	Busy    int           // transactions that gave up waiting for the lock
	Longest time.Duration // between two commits of this process
}

// writerEnv, when set, makes this program a writing process instead: see
// runWriter.
const writerEnv = "STINT_BENCH_WRITER"

type writerOrder struct {
	Driver, Path string
	ID           int
	For          time.Duration
}

// runWriter commits short write transactions, one after the other, for the time
// that its order names. It says "ready", begins when a line comes, and ends with
// its result as one line of JSON.
func runWriter(order writerOrder, in io.Reader, out io.Writer) error {
	db, err := sql.Open(order.Driver, dsn(order.Path))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := db.Ping(); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return err
	}

	var r writerResult
	begun := time.Now()
	last := begun
	for time.Since(begun) < order.For {
		if err := commitOnce(db, order.ID); err != nil {
			r.Busy++
			continue
		}
		now := time.Now()
		r.Longest = max(r.Longest, now.Sub(last))
		r.Commits++
		last = now
	}
	r.Longest = max(r.Longest, time.Since(last))
	return json.NewEncoder(out).Encode(r)
}

func commitOnce(db *sql.DB, id int) error {
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`UPDATE counter SET n = n + 1 WHERE id = ?`, id); err != nil {
		return err
	}
	return tx.Commit()
}

// contend has two processes write to one file for d and checks that no commit
// was lost.
func contend(driver, dir string, d time.Duration) ([2]writerResult, error) {
	var results [2]writerResult
	path := filepath.Join(dir, "contend.db")
	db, err := sql.Open(driver, dsn(path))
	if err != nil {
		return results, err
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE counter(id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
		INSERT INTO counter VALUES (0, 0), (1, 0)`); err != nil {
		return results, err
	}

	var procs [2]*writerProc
	for i := range procs {
		p, err := startWriter(writerOrder{Driver: driver, Path: path, ID: i, For: d})
		if err != nil {
			return results, err
		}
		defer p.kill()
		procs[i] = p
	}
	for _, p := range procs {
		fmt.Fprintln(p.in)
	}
	for i, p := range procs {
		if results[i], err = p.result(); err != nil {
			return results, err
		}
	}

	var stored int
	if err := db.QueryRow(`SELECT sum(n) FROM counter`).Scan(&stored); err != nil {
		return results, err
	}
	if sum := results[0].Commits + results[1].Commits; stored != sum {
		return results, fmt.Errorf("%s: %d commits were confirmed, %d are stored", driver, sum, stored)
	}
	return results, nil
}

type writerProc struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startWriter(order writerOrder) (*writerProc, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &writerProc{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), writerEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); err != nil || line != "ready\n" {
		p.kill()
		return nil, fmt.Errorf("a writing process did not start: %q, %v", line, err)
	}
	return p, nil
}

func (p *writerProc) result() (writerResult, error) {
	var r writerResult
	if err := json.NewDecoder(p.out).Decode(&r); err != nil {
		return r, err
	}
	return r, p.cmd.Wait()
}

// kill ends the process whatever it does; after result it has no effect.
func (p *writerProc) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}
