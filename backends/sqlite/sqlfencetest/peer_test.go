package sqlfencetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/fencetest"
)

// This binary started again with taskEnv set is another process that does one
// task; its arguments are in argEnv.
const (
	taskEnv = "SQLFENCETEST_TASK"
	dsnEnv  = "SQLFENCETEST_DSN"
	argEnv  = "SQLFENCETEST_ARG"
)

func child(task string) {
	var err error
	switch task {
	case "write":
		err = writeChunks(os.Getenv(dsnEnv), os.Getenv(argEnv))
	case "sweep":
		err = sweepAndDie(os.Getenv(dsnEnv), os.Getenv(argEnv))
	case "serve":
		err = serve(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("no task %q", task)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// call is one request to a peer process, and reply its answer. Errors travel as
// what they match.
type call struct {
	Op       string
	Name     string
	Grant    fence.Grant
	Key, Val string
	Row      fence.Row
	Token    fence.Token
	Idle     time.Duration
}

type reply struct {
	Claim    fence.Claim
	Row      fence.Row
	Rows     []fence.Row
	Text     string
	N        int
	Err      string
	Is       []int // of sentinels
	Stale    *fence.StaleError
	Repeated *fence.RepeatedError
}

var sentinels = []error{fence.ErrNoFence, fence.ErrNotRaised, fence.ErrChanged, fence.ErrUnknown, fence.ErrCommitted, fence.ErrSequence}

// remoteError is an error of the other process.
type remoteError struct{ r reply }

func (e *remoteError) Error() string { return e.r.Err }
func (e *remoteError) Is(target error) bool {
	for _, i := range e.r.Is {
		if sentinels[i] == target {
			return true
		}
	}
	return false
}
func (e *remoteError) Unwrap() error {
	switch {
	case e.r.Stale != nil:
		return e.r.Stale
	case e.r.Repeated != nil:
		return e.r.Repeated
	}
	return nil
}

func (r *reply) setErr(err error) {
	if err == nil {
		return
	}
	r.Err = err.Error()
	for i, s := range sentinels {
		if errors.Is(err, s) {
			r.Is = append(r.Is, i)
		}
	}
	errors.As(err, &r.Stale)
	errors.As(err, &r.Repeated)
}

// serve answers calls; "open" changes over to another store.
func serve(in io.Reader, out io.Writer) error {
	var s *store
	var claims map[fence.Grant]fence.Claim
	defer func() {
		if s != nil {
			_ = s.db.Close()
		}
	}()
	calls, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c call
		if err := calls.Decode(&c); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var r reply
		if c.Op == "open" {
			if s != nil {
				_ = s.db.Close()
			}
			var err error
			s, err = openStore(c.Key, nil)
			r.setErr(err)
			claims = map[fence.Grant]fence.Claim{}
		} else {
			r = s.answer(c, claims)
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

func (s *store) answer(c call, claims map[fence.Grant]fence.Claim) (r reply) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	claim, ok := claims[c.Grant]
	if !ok || claim.Name != c.Name {
		claim = fence.Claim{Name: c.Name, Grant: c.Grant}
	}
	var err error
	switch c.Op {
	case "raise":
		if r.Claim, err = s.f.Raise(ctx, c.Name, c.Grant); err == nil {
			claims[c.Grant] = r.Claim
		}
		r.Claim.Seq = nil
	case "check":
		err = s.f.Check(ctx, claim)
	case "finish":
		err = s.f.Finish(ctx, claim)
	case "claims":
		for row, e := range s.f.Claims(ctx) {
			err = e
			r.Rows = append(r.Rows, row)
		}
	case "requeue":
		err = s.f.Requeue(ctx, c.Row)
	case "write":
		err = s.write(ctx, claim, c.Key, c.Val, nil)
	case "read":
		r.Text, err = s.read(ctx, c.Key)
	case "remove":
		_, err = s.db.ExecContext(ctx, "DELETE FROM data")
	case "row":
		r.Row, err = s.f.Row(ctx, c.Name)
	case "bar":
		err = s.f.Bar(ctx, c.Name, c.Token)
	case "prune":
		r.N, err = s.f.Prune(ctx, c.Idle)
	default:
		err = fmt.Errorf("no call %q", c.Op)
	}
	r.setErr(err)
	return r
}

// peer is a fence in another process.
type peer struct {
	mu  sync.Mutex
	in  *json.Encoder
	out *json.Decoder
}

// command is this binary, to be started as another process.
func command(task, dsn, arg string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), taskEnv+"="+task, dsnEnv+"="+dsn, argEnv+"="+arg,
		"GORACE="+strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")) // else a second at every exit under -race
	cmd.Stderr = os.Stderr
	return cmd
}

func startPeer(t *testing.T) *peer {
	cmd := command("serve", "", "")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // its loop ends with its input
		if err := cmd.Wait(); err != nil {
			t.Errorf("the peer process: %v", err)
		}
	})
	return &peer{in: json.NewEncoder(in), out: json.NewDecoder(out)}
}

func (p *peer) call(ctx context.Context, c call) (r reply, err error) {
	if ctx.Err() != nil {
		return reply{}, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.in.Encode(c); err != nil {
		return reply{}, err
	}
	if err := p.out.Decode(&r); err != nil {
		return reply{}, err
	}
	if r.Err != "" {
		return r, &remoteError{r}
	}
	return r, nil
}

func (p *peer) do(ctx context.Context, c call) error {
	_, err := p.call(ctx, c)
	return err
}

// open changes over to another store, and gives it up at the end of the test.
func (p *peer) open(t *testing.T, dsn string) {
	must(t, p.do(t.Context(), call{Op: "open", Key: dsn}))
	t.Cleanup(func() { must(t, p.do(context.Background(), call{Op: "open", Key: "file::memory:"})) })
}

func (p *peer) Raise(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	r, err := p.call(ctx, call{Op: "raise", Name: name, Grant: g})
	return r.Claim, err
}

func (p *peer) Check(ctx context.Context, c fence.Claim) error {
	return p.do(ctx, call{Op: "check", Name: c.Name, Grant: c.Grant})
}

func (p *peer) Finish(ctx context.Context, c fence.Claim) error {
	return p.do(ctx, call{Op: "finish", Name: c.Name, Grant: c.Grant})
}

func (p *peer) Claims(ctx context.Context) iter.Seq2[fence.Row, error] {
	return func(yield func(fence.Row, error) bool) {
		r, err := p.call(ctx, call{Op: "claims"})
		if err != nil {
			yield(fence.Row{}, err)
			return
		}
		for _, row := range r.Rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func (p *peer) Requeue(ctx context.Context, seen fence.Row) error {
	return p.do(ctx, call{Op: "requeue", Row: seen})
}

func (p *peer) suite() fencetest.Store {
	return fencetest.Store{
		Fence: p,
		Write: func(ctx context.Context, c fence.Claim, key, value string, _ func() error) error {
			return p.do(ctx, call{Op: "write", Name: c.Name, Grant: c.Grant, Key: key, Val: value})
		},
		Read: func(ctx context.Context, key string) (string, error) {
			r, err := p.call(ctx, call{Op: "read", Key: key})
			return r.Text, err
		},
		Remove: func(ctx context.Context) error { return p.do(ctx, call{Op: "remove"}) },
		Row: func(ctx context.Context, name string) (fence.Row, error) {
			r, err := p.call(ctx, call{Op: "row", Name: name})
			return r.Row, err
		},
		Bar: func(ctx context.Context, name string, token fence.Token) error {
			return p.do(ctx, call{Op: "bar", Name: name, Token: token})
		},
		Prune: func(ctx context.Context, idle time.Duration) (int, error) {
			r, err := p.call(ctx, call{Op: "prune", Idle: idle})
			return r.N, err
		},
	}
}
