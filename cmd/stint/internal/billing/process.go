package billing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Process is a worker process, started by this one and signalled by its id.
type Process struct {
	Who   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	tail  bytes.Buffer // of what it wrote to stderr; read after done is closed
	done  chan struct{}
	err   error // how it ended; read after done is closed
}

// storeEnv carries a store that has a URL: there may be a password in it, and
// everybody on a machine can read the arguments of a process.
const storeEnv = "STINT_DEMO_STORE"

// Start runs argv with the worker's configuration added. Each event is handed to
// tell, from a goroutine of this process's own; the last one is Exited.
func Start(argv []string, c Config, tell func(Event)) (*Process, error) {
	var env []string
	if IsURL(c.Store) {
		env, c.Store = append(os.Environ(), storeEnv+"="+c.Store), ""
	}
	arg, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &Process{Who: c.Who, cmd: exec.Command(argv[0], append(argv[1:], string(arg))...), done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Env = &p.tail, env
	// A group of its own: Ctrl-C goes to the supervisor alone, which then ends its
	// workers one by one. Should the supervisor be killed, the worker sees the end
	// of its standard input; one that is stopped is woken by the kernel, which
	// sends HUP and CONT to a stopped group that has lost its parent.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(stdout, tell)
	return p, nil
}

// listen passes on the worker's events until it is gone.
func (p *Process) listen(stdout io.Reader, tell func(Event)) {
	lines := json.NewDecoder(stdout)
	for {
		var e Event
		if err := lines.Decode(&e); err != nil {
			break
		}
		tell(e)
	}
	io.Copy(io.Discard, stdout) // a line that is no event must not block the worker
	p.err = p.cmd.Wait()
	close(p.done)
	last := Event{Who: p.Who, Step: Exited}
	if err := p.Err(); err != nil {
		last.Err, last.Kind = err.Error(), KindOther
	}
	tell(last)
}

// Pid is the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Freeze stops the process as it stands, and returns when it has stopped. The
// signal alone is only on its way: were this process killed just then, the
// kernel would find no stopped group to wake, and the worker would stop
// afterwards, for ever.
func (p *Process) Freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return hasStopped(p.Pid())
}

// Thaw continues a frozen process.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once, frozen or not.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Go lets a worker go on that is held at a step.
func (p *Process) Go() error {
	_, err := io.WriteString(p.stdin, "go\n")
	return err
}

// Wait returns when the process is gone.
func (p *Process) Wait() { <-p.done }

// Err is how a process that is gone has ended: nil for exit code 0, otherwise
// with the last that it said.
func (p *Process) Err() error {
	if p.err == nil {
		return nil
	}
	if said := bytes.TrimSpace(p.tail.Bytes()); len(said) > 0 {
		return fmt.Errorf("worker %s: %w: %s", p.Who, p.err, said)
	}
	return fmt.Errorf("worker %s: %w", p.Who, p.err)
}

// Cast is the set of worker processes that are to be gone in the end.
type Cast struct {
	mu  sync.Mutex
	all []*Process
}

// Add remembers p.
func (c *Cast) Add(p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
}

// Kill ends every process that is left and waits until it is gone. KILL also
// ends a stopped process, which then never runs another instruction.
func (c *Cast) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		p.Kill()
	}
	for _, p := range c.all {
		p.Wait()
	}
}
