package etcdcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a member's process, seen from the one that started it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	report report
	exited chan struct{} // closed when it is gone and err is set
	err    error
}

// spawn starts a member and waits until it says where it listens. Its standard
// error goes to the member's log. born is told its process id before it does
// anything.
func spawn(ctx context.Context, s settings, born func(pid int)) (*process, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	program := s.Options.Program
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(program), exited: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), memberEnv+"=1"), s.Options.Environ...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithParent(p.cmd.SysProcAttr)
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	said := make(chan error, 1)
	started := make(chan error, 1)
	go p.own(started, stdout, said)
	if err := <-started; err != nil {
		return nil, err
	}
	born(p.cmd.Process.Pid)
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, p.await(ctx, said)
}

// own starts the process and waits for its end on one thread: the kernel counts
// the death of that thread as the parent's.
func (p *process) own(started chan<- error, stdout io.Reader, said chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p.report)
	}
	said <- err
	p.err = p.cmd.Wait()
	close(p.exited)
}

func (p *process) await(ctx context.Context, said <-chan error) error {
	select {
	case err := <-said:
		switch {
		case err != nil:
			return errors.Join(fmt.Errorf("etcdcluster: the member's process ended before it listened (does the program call Main first?): %w", err), p.kill())
		case p.report.Error != "":
			return errors.Join(fmt.Errorf("etcdcluster: etcd did not start: %s", p.report.Error), p.kill())
		}
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.kill())
	}
}

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	p.stdin.Close()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// close ends the process as a service manager would, and kills it when that
// takes longer than patience.
func (p *process) close(patience time.Duration) error {
	p.stdin.Close()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-p.exited:
		return p.err
	case <-t.C:
		return errors.Join(fmt.Errorf("etcdcluster: the member did not end within %v", patience), p.kill())
	}
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }
