// Package oksocket answers "does my lease still hold?" to the command that
// stint runs, over a unix socket in a private folder.
//
// The answer is how much time is left, and the asker counts it from before it
// asked, on its own boot clock. So an answer that was written and then delayed,
// or that comes from a stint which is frozen afterwards, runs out by itself; a
// stint that is frozen now does not answer at all, which is a no.
package oksocket

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/stint-dev/stint/authority"
)

// Answer is what stint says about the lease at one moment.
type Answer struct {
	Name  string        `json:"name"`
	Token int64         `json:"token"`
	Grant string        `json:"grant"`
	Left  time.Duration `json:"left"` // until the stop time, in nanoseconds; not positive: do not go on
	Why   string        `json:"why,omitempty"`
}

// maxPath is what fits into a socket's address on every system (104 on macOS,
// 108 on Linux, both with a closing zero).
const maxPath = 103

const prefix = "stint-"

// patience bounds one conversation.
const patience = time.Second

// Server answers until it is closed.
type Server struct {
	Path   string
	dir    string
	l      net.Listener
	answer func() Answer
	wg     sync.WaitGroup
}

// Serve listens in a new folder that only this user can enter. answer is
// called once for each question, from several goroutines.
func Serve(answer func() Answer) (*Server, error) {
	dir, err := privateFolder()
	if err != nil {
		return nil, err
	}
	s := &Server{Path: filepath.Join(dir, "s"), dir: dir, answer: answer}
	s.l, err = net.Listen("unix", s.Path)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s.wg.Go(s.accept)
	return s, nil
}

// privateFolder makes one of mode 0700 whose name is short enough for a socket.
func privateFolder() (string, error) {
	var errs []error
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if base == "" || !filepath.IsAbs(base) {
			continue
		}
		sweep(base)
		dir, err := os.MkdirTemp(base, prefix)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(dir)+len("/s") <= maxPath {
			return dir, nil
		}
		_ = os.Remove(dir)
		errs = append(errs, fmt.Errorf("%s is too long for a socket's path", base))
	}
	return "", errors.Join(errs...)
}

// sweep removes the folders of stints that were killed: those whose socket is
// older than a minute, so not just being made, and refuses, since nobody listens.
// What belongs to another user cannot be entered.
func sweep(base string) {
	sockets, _ := filepath.Glob(filepath.Join(base, prefix+"*", "s"))
	for _, path := range sockets {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Type() != fs.ModeSocket || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		c, err := net.DialTimeout("unix", path, patience)
		if err == nil {
			_ = c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			_ = os.Remove(path)
			_ = os.Remove(filepath.Join(filepath.Dir(path), "n")) // of --watchdog
			_ = os.Remove(filepath.Dir(path))                     // and nothing else in it
		}
	}
}

func (s *Server) accept() {
	for {
		c, err := s.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, and the like: it passes
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.wg.Go(func() { s.serve(c) })
	}
}

func (s *Server) serve(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	// The lease is read after the question came, so its time left counts from
	// an instant after the asker's.
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return
	}
	_ = json.NewEncoder(c).Encode(s.answer())
}

// Close removes the socket and waits for the conversations that are open.
func (s *Server) Close() {
	_ = s.l.Close()
	s.wg.Wait()
	_ = os.RemoveAll(s.dir)
}

// Ask asks the stint that listens at path. An error means that it did not
// answer in time; the lease must then be taken for lost. The answer's Left is
// what is left now.
func Ask(path string, timeout time.Duration) (Answer, error) {
	var clock authority.BootClock
	asked := clock.Now()
	c, err := net.DialTimeout("unix", path, timeout)
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timeout))
	if _, err := c.Write([]byte("?")); err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := json.NewDecoder(io.LimitReader(c, 1<<16)).Decode(&a); err != nil {
		return Answer{}, err
	}
	a.Left -= clock.Now().Sub(asked)
	if a.Left <= 0 && a.Why == "" {
		a.Why = "the stop time has passed"
	}
	return a, nil
}
