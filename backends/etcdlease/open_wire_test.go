package etcdlease

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/authority"
)

func TestAServerThatAcceptsAndNeverAnswersIsNamed(t *testing.T) {
	addr := listen(t, func(net.Conn) {})
	s, err := parsed("etcd://u:hunter2@" + addr + ",127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	told := false
	for limit := time.Second; !told; limit *= 2 { // a busy machine may not have come to a connection within it
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		asked := time.Now()
		_, err = connect(ctx, s)
		cancel()
		if d := time.Since(asked); d > limit+10*time.Second {
			t.Errorf("a limit of %v ended it after %v", limit, d)
		}
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, authority.ErrBroken) {
			t.Fatalf("by the deadline: %v", err)
		}
		told = true
		for _, want := range []string{addr + ": it accepted a connection", "has not answered yet", "127.0.0.1:1: connection refused"} {
			told = told && strings.Contains(err.Error(), want)
		}
		if !told && limit > 5*time.Second {
			t.Fatalf("after %v: %v", limit, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error tells the password: %v", err)
	}
	// Nobody has said that it cannot be: who opens with more time goes on.
	c, err := connect(t.Context(), s)
	if err != nil {
		t.Fatalf("with more time: %v", err)
	}
	defer c.close()
	for !strings.Contains(c.words.because(), "never answers") { // until the connection is given up
		if time.Since(began) > 45*time.Second {
			t.Fatalf("still %s", c.words.because())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAPortThatAnotherServerHasIsSaid(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	err := open1(t, plainScheme, web.Listener.Addr().String(), "")
	if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), "a web server, not etcd") {
		t.Errorf("got %v", err)
	}
}

func TestANameThatIsNoHostIsSaid(t *testing.T) {
	s, err := parsed("etcd://no-such-host.invalid")
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConnection(s)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = c.client.Get(ctx, "x", clientv3.WithLimit(1))
	if err = c.words.explain(err); err == nil || !strings.Contains(err.Error(), "no-such-host.invalid:2379: ") {
		t.Errorf("got %v", err)
	}
}

func TestOnlySilenceGivesAConnectionUp(t *testing.T) {
	w := newWires([]string{"a"})
	now := w.clock.Now()
	for what, c := range map[string]struct {
		read, asked, from time.Duration // ago
		recalled, want    bool
	}{
		"a request that has just failed":              {4 * time.Second, 0, time.Second, false, false},
		"a request as long as the silence":            {4 * time.Second, 0, 2 * time.Second, false, true},
		"several short ones, without a byte":          {4 * time.Second, 3 * time.Second, time.Second, false, true},
		"short ones that failed before the last byte": {2 * time.Second, 3 * time.Second, time.Second, false, false},
		"a byte since":                         {time.Second, 0, 3 * time.Second, false, false},
		"recalled at once, long after another": {4 * time.Second, 3 * time.Second, time.Millisecond, true, false},
		"recalled after a long silence":        {4 * time.Second, 0, 2 * time.Second, true, true},
	} {
		x := &wire{of: w}
		x.readAt.Store(int64(now.Add(-c.read)))
		if c.asked != 0 {
			x.askedAt.Store(int64(now.Add(-c.asked)))
		}
		if got := x.silentSince(now.Add(-c.from), c.recalled); got != c.want {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}
