package etcdtests

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// withTLS is a cluster that asks for clients' certificates, and the CA of all.
func withTLS(t *testing.T) (*world, *etcdcluster.CA, etcdcluster.TLS) {
	t.Helper()
	ca, err := etcdcluster.NewCA(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string) etcdcluster.TLS {
		c, err := ca.Issue(etcdcluster.Certificate{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	server, admin, client := issue("server"), issue("admin"), issue("client")
	server.ClientCerts = true
	return newWorld(t, 1, etcdcluster.Options{NoSync: true, TLS: server, ClientTLS: admin}), ca, client
}

func parameters(c etcdcluster.TLS) string { return "ca=" + c.CA + "&cert=" + c.Cert + "&key=" + c.Key }

func TestACertificateThatDoesNotFitFailsAtOnce(t *testing.T) {
	t.Parallel()
	w, _, client := withTLS(t)
	others, err := etcdcluster.NewCA(t.TempDir())
	w.must(err)
	foreign, err := others.Issue(etcdcluster.Certificate{Name: "client"})
	w.must(err)
	for parameters, why := range map[string]string{
		"ca=" + foreign.CA: "is of an authority that is not in " + foreign.CA,
		"ca=" + client.CA:  "cert= and key=",
		"ca=" + client.CA + "&cert=" + foreign.Cert + "&key=" + foreign.Key: "client's certificate",
		parameters(client) + "&server-name=db1":                             "server-name=",
	} {
		var err error
		w.eventually("the servers were asked", func() bool { // on a busy machine opening may not wait for it
			var a authority.Authority
			if a, err = authority.Open(w.long(), w.url("etcds", "", parameters)); err == nil {
				a.Close()
			}
			return err != nil
		})
		if !errors.Is(err, authority.ErrBroken) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want %q", parameters, err, why)
		}
	}
	if _, err := authority.Open(w.long(), w.url("etcd", "", "")); err == nil || !strings.Contains(err.Error(), "etcds://") {
		t.Errorf("without TLS: %v", err)
	}
	w.works(w.client(w.url("etcds", "", parameters(client)+"&server-name=localhost"), stint.Options{}), "job")
}

// TestARotatedCertificateCostsNothing: both sides get new ones; each is used from
// the next connection on.
func TestARotatedCertificateCostsNothing(t *testing.T) {
	t.Parallel()
	w, ca, client := withTLS(t)
	o := calm
	door, err := w.cluster.Door()
	w.must(err)
	c := w.client(w.via(door, w.url("etcds", "", parameters(client))), o)
	l := w.lease(c, "job")
	for _, name := range []string{"client", "server"} {
		_, err := ca.Issue(etcdcluster.Certificate{Name: name})
		w.must(err)
	}
	door.Each((*etcdcluster.Link).Reset)
	w.renewed(l, o)
	w.works(c, "other")
	w.must(l.Release(w.long()))
}

// TestAnExpiredCertificateEndsTheLeaseInTime, whoever's it is, and a new one in
// its place makes the client work again.
func TestAnExpiredCertificateEndsTheLeaseInTime(t *testing.T) {
	t.Parallel()
	w, ca, client := withTLS(t)
	door, err := w.cluster.Door()
	w.must(err)
	c := w.client(w.via(door, w.url("etcds", "", parameters(client))), brief)
	for name, why := range map[string]string{
		"server": "the server's certificate has expired",
		"client": "the client's certificate has expired",
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, cluster: w.cluster, raw: w.raw, prefix: w.prefix}
			l := w.lease(c, "job")
			_, err = ca.Issue(etcdcluster.Certificate{Name: name, NotAfter: time.Now().Add(-time.Hour)})
			w.must(err)
			door.Each((*etcdcluster.Link).Reset) // connections that are there outlive the certificate
			w.ends(l, why)
			w.refused(c, why)
			_, err = ca.Issue(etcdcluster.Certificate{Name: name})
			w.must(err)
			w.works(c, "job")
		})
	}
}
