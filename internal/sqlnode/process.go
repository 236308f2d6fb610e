package sqlnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it is gone and err is set
	err  error
}

// A port that was free a moment ago may be taken by then, and what a server that
// was killed has had may be in use a moment longer.
const (
	tries = 50
	pause = 100 * time.Millisecond
)

// Restart starts the server again after Kill or Stop, on the same port, and
// returns when it serves.
func (n *Node) Restart(ctx context.Context) error {
	fresh := n.port == 0
	for try := 1; ; try++ {
		if fresh {
			var err error
			if n.port, err = freePort(); err != nil {
				return err
			}
		}
		err := n.launch(ctx)
		if err == nil || try == tries || !taken(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// taken tells that the port is not to be had, or that the memory of a server
// that was killed is still in use by those of its processes that have not
// noticed yet.
func taken(err error) bool {
	s := err.Error()
	return strings.Contains(s, "Address already in use") || strings.Contains(s, "still in use")
}

// freePort is one on which nobody listens, below those that the system gives to
// connections.
func freePort() (int, error) {
	var err error
	for range 50 {
		port := 20000 + rand.IntN(12000)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("sqlnode: no free port: %w", err)
}

func (n *Node) launch(ctx context.Context) error {
	if n.kind.configure != nil {
		if err := n.kind.configure(n); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	argv := n.kind.command(n)
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.SysProcAttr = n.dir, environment(), n.account.attributes()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error, 1)
	go p.own(started)
	if err := <-started; err != nil {
		return fmt.Errorf("sqlnode: %s does not start: %w", n.kind.name, err)
	}
	n.mu.Lock()
	n.proc = p
	n.mu.Unlock()
	if err := n.await(ctx, p, from); err != nil {
		return errors.Join(err, n.Kill())
	}
	return nil
}

// own starts the process and waits for its end on one thread: the kernel counts
// the death of that thread as the parent's.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.done)
	}
}

// await reads the log until the server says that it serves.
func (n *Node) await(ctx context.Context, p *process, from int64) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := n.logSince(from)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(n.kind.ready)) {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("sqlnode: %s ended instead of serving (%v): %s", n.kind.name, p.err, n.reason(from))
		case <-ctx.Done():
			return fmt.Errorf("sqlnode: %s does not serve: %w: %s", n.kind.name, context.Cause(ctx), n.reason(from))
		case <-tick.C:
		}
	}
}

func (n *Node) logSince(from int64) ([]byte, error) {
	text, err := os.ReadFile(n.LogFile())
	return text[min(from, int64(len(text))):], err
}

// reason is the end of the log. It is read when the server has come to its own:
// what it said last was not there when it was looked at before.
func (n *Node) reason(from int64) string {
	const most = 2000
	text, err := n.logSince(from)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// Pid is the server's first process, or 0.
func (n *Node) Pid() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

// Kill is kill -9 of the server's first process, and returns when that is gone and
// nobody listens any more. PostgreSQL's others follow by themselves: one that was
// just forked has the listening socket open until it comes to close it. A server
// that is down stays so.
func (n *Node) Kill() error {
	if n.Pid() == 0 {
		return nil
	}
	return errors.Join(n.end(syscall.SIGKILL), n.awaitSilence())
}

// awaitSilence returns when no connection can be made.
func (n *Node) awaitSilence() error {
	const most = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", n.Addr())
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err == nil {
			c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sqlnode: %s was killed, and %s still listens after %v", n.kind.name, n.Addr(), most)
		case <-tick.C:
		}
	}
}

// Stop ends the server in good order: clients are sent away, what was committed
// is written.
func (n *Node) Stop() error {
	if n.kind == PostgreSQL {
		return n.end(syscall.SIGINT) // fast: TERM would wait for the clients
	}
	return n.end(syscall.SIGTERM)
}

func (n *Node) end(how syscall.Signal) error {
	n.mu.Lock()
	p := n.proc
	n.proc = nil
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	err := p.cmd.Process.Signal(how)
	<-p.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
