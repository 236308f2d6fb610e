package etcdlease

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// server is the other side of a login: it takes one password.
type server struct {
	mu     sync.Mutex
	takes  string
	asked  []string
	before func(context.Context) // an answer
}

func (s *server) invoke(ctx context.Context, _ string, req, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
	r := req.(*pb.AuthenticateRequest)
	s.mu.Lock()
	s.asked = append(s.asked, r.Password)
	before, takes := s.before, s.takes
	s.mu.Unlock()
	if before != nil {
		before(ctx)
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if r.Password != takes {
		return rpctypes.ErrGRPCAuthFailed
	}
	reply.(*pb.AuthenticateResponse).Token = "token of " + r.Name + " by " + r.Password
	return nil
}

func (s *server) take(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.asked = password, nil
}

func newLogin(file string) *login {
	l := &login{user: source{value: "anna"}, password: source{file: file}}
	ctx := context.Background()
	l.base.Store(&ctx)
	return l
}

func (s *server) login(ctx context.Context, l *login) (string, error) {
	var reply pb.AuthenticateResponse
	err := l.intercept(ctx, authenticate, &pb.AuthenticateRequest{Name: "nobody", Password: "nothing"}, &reply, nil, s.invoke)
	return reply.Token, err
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestASecretIsReadFromOnePlaceAndNeverTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	t.Setenv("STINT_TEST_PASSWORD", "hunter2")
	for text, want := range map[string]string{"hunter2": "hunter2", "hunter2\n": "hunter2", "hunter2\r\n": "hunter2", " a b \n\n": " a b \n", "\n": "", strings.Repeat("x", 4097): ""} {
		write(t, file, text)
		got, err := source{file: file}.read()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.20q: read %q, %v", text, got, err)
		}
	}
	if got, err := (source{env: "STINT_TEST_PASSWORD"}).read(); got != "hunter2" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := (source{env: "STINT_TEST_NO_SUCH"}).read(); err == nil || !strings.Contains(err.Error(), "STINT_TEST_NO_SUCH") {
		t.Errorf("a missing variable: %v", err)
	}
	if _, err := (source{file: file + "-"}).read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, s := range []source{{value: "hunter2"}, {file: file}, {env: "STINT_TEST_PASSWORD"}} {
		if strings.Contains(s.String(), "hunter2") {
			t.Errorf("%#v tells itself: %s", s, s)
		}
	}
}

func TestARotatedPasswordWorksWhicheverSideIsChangedFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	write(t, file, "one\n")
	s, l := &server{takes: "one"}, newLogin(file)
	expect := func(what, want string) {
		t.Helper()
		if got, err := s.login(t.Context(), l); want != "" && (err != nil || got != "token of anna by "+want) || want == "" && !wrongLogin(err) {
			t.Fatalf("%s: got %q, %v", what, got, err)
		}
	}
	expect("at first", "one")
	write(t, file, "two\n")
	expect("the file was first", "one")
	s.take("two")
	expect("and now the server", "two")
	s.take("three")
	expect("the server was first", "")
	write(t, file, "three\n")
	expect("and now the file", "three")
	write(t, file, "")
	expect("the file is being written", "three")
	if err := l.troubled(); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("the file's trouble: %v", err)
	}
	s.take("four")
	expect("and nothing is right", "")
	if len(s.asked) != 1 {
		t.Errorf("asked with %q: what was refused is not tried twice", s.asked)
	}
}

func TestManyWhoNeedALoginShareOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	write(t, file, "one")
	l, come := newLogin(file), make(chan struct{})
	s := &server{takes: "one"}
	s.before = func(context.Context) { <-come }
	var wg, asking sync.WaitGroup
	asking.Add(50)
	for range 50 {
		wg.Go(func() {
			asking.Done()
			if got, err := s.login(t.Context(), l); err != nil || got != "token of anna by one" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.login(short, l); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("one that could not wait: %v", err)
	}
	asking.Wait()
	close(come)
	wg.Wait()
	if len(s.asked) > 5 { // some may come when the first has ended
		t.Errorf("%d logins for 50 requests at once", len(s.asked))
	}
}

func TestALoginThatTakesLongerThanAnyRequestIsNotLost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	write(t, file, "one")
	l, s, come := newLogin(file), &server{takes: "one"}, make(chan struct{})
	s.before = func(context.Context) { <-come }
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.login(short, l); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("the first: %v", err)
	}
	close(come)
	if got, err := s.login(t.Context(), l); err != nil || got != "token of anna by one" {
		t.Errorf("the next: %q, %v", got, err)
	}
	if len(s.asked) != 1 {
		t.Errorf("%d logins", len(s.asked))
	}
	s.take("one")
	if _, err := s.login(t.Context(), l); err != nil || len(s.asked) != 1 {
		t.Errorf("a token that was taken was given again (%d logins, %v)", len(s.asked), err)
	}
}

func TestALoginWithoutAnAnswerIsNotWaitedForByEverybody(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	write(t, file, "one")
	l, s := newLogin(file), &server{takes: "one"}
	s.before = func(ctx context.Context) { <-ctx.Done() }
	_, err := s.login(t.Context(), l)
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v: the caller has more time", err)
	}
	s.mu.Lock()
	s.before = nil
	s.mu.Unlock()
	if got, err := s.login(t.Context(), l); err != nil || got == "" {
		t.Errorf("the next: %q, %v", got, err)
	}
}
