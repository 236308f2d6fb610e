package etcdnode

import (
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// beyond are settings of a node that other hosts could reach.
func beyond(t *testing.T) (Settings, *ca) {
	s, c := fast(t, filepath.Join(t.TempDir(), "data")), newCA(t)
	s.Client = c.sign(1, time.Now().Add(time.Hour))
	s.Client.CA = ""
	_, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		t.Fatal(err)
	}
	s.Advertise, s.Listen = s.Listen, "0.0.0.0:"+port
	return s, c
}

func as(t *testing.T, s Settings, trust *tls.Config, user, password string) (*clientv3.Client, error) {
	trust = trust.Clone()
	trust.Certificates = nil // its name would be a user's
	c, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: []string{s.Advertise}, TLS: trust, Username: user, Password: password, DialTimeout: limit})
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func TestBeyondLoopbackNobodyIsServedWithoutUsers(t *testing.T) {
	s, ca := beyond(t)
	mustRefuse(t, s, ErrSettings, "no users are set up")
	s.RootPassword = "hunter2"
	n := start(t, s)
	nobody, err := as(t, s, ca.trust(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nobody.Get(within(t), "stint/x"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("without a user: %v", err)
	}
	if _, err := as(t, s, ca.trust(), Root, "wrong"); err == nil {
		t.Error("a wrong password was taken")
	}
	root, err := as(t, s, ca.trust(), Root, "hunter2")
	if err != nil {
		t.Fatal(err)
	}
	if err := AddUser(within(t), root, "billing", "secret", "stint"); err != nil {
		t.Fatal(err)
	}
	billing, err := as(t, s, ca.trust(), "billing", "secret")
	if err != nil {
		t.Fatal(err)
	}
	put(t, billing, "stint/lock/x", "1")
	for _, key := range []string{"stint", "stint-serve/origin", "stint0", "other"} {
		if _, err := billing.Put(within(t), key, "1"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
			t.Errorf("billing wrote %s: %v", key, err)
		}
	}
	stop(t, n)

	s.RootPassword = "" // it is in the data
	n = start(t, s)
	defer stop(t, n)
	if _, err := root.AuthDisable(within(t)); err != nil {
		t.Fatal(err)
	}
	// Users are off, by root's own doing: nobody is served any more.
	_, err = nobody.Get(within(t), "stint/x")
	if err == nil || !strings.Contains(err.Error(), "users are not set up") {
		t.Errorf("after users were switched off: %v", err)
	}
}

func TestUsersAreChangedOnlyByThoseWhoMay(t *testing.T) {
	s := fast(t, filepath.Join(t.TempDir(), "data"))
	n := start(t, s)
	defer stop(t, n)
	c := dial(t, s.Listen)
	if err := AddUser(within(t), c, "billing", "x", "stint"); !errors.Is(err, ErrNoRoot) {
		t.Errorf("without root: %v", err)
	}
	if err := AddUser(within(t), c, Root, "one", "stint"); err != nil {
		t.Fatal(err)
	}
	if err := AddUser(within(t), c, Root, "two", "stint"); err == nil {
		t.Error("nobody changed root's password")
	}
	for _, password := range []string{"two", "three"} { // root changes its own
		old := map[string]string{"two": "one", "three": "two"}[password]
		root, err := clientv3.New(clientv3.Config{Logger: zap.NewNop(), Endpoints: []string{s.Listen}, Username: Root, Password: old})
		if err != nil {
			t.Fatal(err)
		}
		if err := AddUser(within(t), root, Root, password, "stint"); err != nil {
			t.Error(err)
		}
		root.Close()
	}
	if got := n.Users(); !got {
		t.Error("users are not on")
	}
}
