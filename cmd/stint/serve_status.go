package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/stint-dev/stint/backends/etcdlease"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const serveStatusLong = `Asks the nodes how they do: which there are, which leads, how far the counter of
tokens is, how many leases of clients there are, and how large the data is. Where
users are set up it takes the user root to count the leases, and with less than
half of the nodes, where nobody can log in, it is only told which of them answer.

Exit code 0: there is a leader, and no node complains. 69: there is none, or
nobody answers, or a node complains, or leases that have ended are not removed.`

// nodeStatus is one node of the JSON of stint serve status. Its fields are
// stable: fields are added, not renamed.
type nodeStatus struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Address  string   `json:"address"` // for clients
	Answers  bool     `json:"answers"`
	Leader   bool     `json:"leader"`
	Revision int64    `json:"revision"` // how far this node knows the counter of tokens
	Disk     int64    `json:"disk_bytes"`
	Used     int64    `json:"used_bytes"` // of those
	Quota    int64    `json:"quota_bytes"`
	Etcd     string   `json:"etcd,omitempty"` // its version
	Problems []string `json:"problems,omitempty"`
}

// clusterStatus is the JSON of stint serve status.
type clusterStatus struct {
	Leader   string       `json:"leader"` // name; empty: none
	Revision int64        `json:"revision"`
	Leases   *int         `json:"leases"`                   // of clients, each for all its locks of one length; null: may not be asked
	Overdue  int          `json:"overdue_leases,omitempty"` // of those: ended long ago, and not removed
	Nodes    []nodeStatus `json:"nodes"`
	// NoLogin: nobody can log in, so more is not known than who answers.
	NoLogin bool `json:"no_login,omitempty"`
}

func serveStatusCommand() *cobra.Command {
	var e etcdFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, leader, revision, leases and disk",
		Long:  serveStatusLong,
		Args:  exactly(),
		RunE:  func(*cobra.Command, []string) error { return e.status(asJSON) },
	}
	e.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON object")
	return c
}

func (e *etcdFlags) status(asJSON bool) error {
	var st clusterStatus
	err := e.ask(func(ctx context.Context, s *etcdlease.Servers) error {
		var err error
		if st, err = askCluster(ctx, s); err == nil {
			return nil
		}
		if loginMayFail(s, err) {
			var alive bool
			if st, alive = e.askApart(ctx); alive {
				return nil
			}
		}
		return e.unread(s, "the nodes cannot be asked", err)
	})
	if err != nil {
		return err
	}
	if asJSON {
		err = report.JSON(os.Stdout, st)
	} else {
		err = st.write(os.Stdout)
	}
	if err == nil {
		err = st.trouble()
	}
	return err
}

// askCluster asks who there is, and then each of them. A cluster without a
// leader answers too.
func askCluster(ctx context.Context, s *etcdlease.Servers) (clusterStatus, error) {
	st := clusterStatus{Nodes: []nodeStatus{}}
	logged, cancel := context.WithTimeout(ctx, loginPatience)
	defer cancel()
	members, err := s.Client.MemberList(logged, clientv3.WithSerializable())
	if err != nil {
		return st, err
	}
	var all sync.WaitGroup
	answers := make([]nodeStatus, len(members.Members))
	for i, m := range members.Members {
		n := &answers[i]
		n.Name, n.ID = m.Name, fmt.Sprintf("%x", m.ID)
		if len(m.ClientURLs) > 0 {
			n.Address = hostOf(m.ClientURLs[0])
			all.Go(func() { n.ask(ctx, s, m.ID) })
		} else {
			n.Problems = []string{"has not served yet"}
		}
	}
	all.Wait()
	for _, n := range answers {
		st.Revision = max(st.Revision, n.Revision)
		if n.Leader {
			st.Leader = n.Name
		}
		st.Nodes = append(st.Nodes, n)
	}
	if st.Leader != "" {
		short, cancel := context.WithTimeout(ctx, nodePatience)
		defer cancel()
		if l, err := s.Client.Leases(short); err == nil {
			n := len(l.Leases)
			st.Leases, st.Overdue = &n, overdue(short, s.Client, l.Leases)
		}
	}
	return st, nil
}

// nodePatience is how long one node may take; loginPatience the login with the
// first question.
const (
	nodePatience  = 3 * time.Second
	loginPatience = 6 * time.Second
)

func (n *nodeStatus) ask(ctx context.Context, s *etcdlease.Servers, id uint64) {
	ctx, cancel := context.WithTimeout(ctx, nodePatience)
	defer cancel()
	r, err := s.Client.Status(ctx, n.Address)
	if err != nil {
		why := s.Explain(err)
		if ctx.Err() != nil { // what its connection has met says more
			why = cmp.Or(s.Trouble(n.Address), errors.New("no answer"))
		}
		n.Problems = []string{why.Error()}
		return
	}
	n.Answers, n.Leader, n.Revision = true, r.Leader == id, r.Header.Revision
	n.Disk, n.Used, n.Quota, n.Etcd = r.DbSize, r.DbSizeInUse, r.DbSizeQuota, r.Version
	for _, p := range r.Errors {
		switch {
		case strings.Contains(p, "no leader"):
			p = "it knows no leader"
		case strings.Contains(p, "NOSPACE"):
			p = "the quota is used up: no lease is granted"
		case strings.Contains(p, "CORRUPT"):
			p = "its data differs from the others'"
		}
		n.Problems = append(n.Problems, p)
	}
}

func hostOf(raw string) string {
	_, host, _ := strings.Cut(raw, "://")
	return host
}

// write shows the nodes to people.
func (st clusterStatus) write(w io.Writer) error {
	leases := "(only root may count them)"
	if st.Leases != nil {
		leases = fmt.Sprint(*st.Leases)
	}
	if st.Overdue > 0 {
		leases += fmt.Sprintf(", of which %d ended more than %v ago: the leader fails to remove them, see its log", st.Overdue, muchLonger)
	}
	leader, counter := st.Leader, fmt.Sprint(st.Revision)
	switch {
	case st.NoLogin:
		leader, leases, counter = "not known, most likely none: nobody can log in", "(not known)", "(not known)"
	case leader == "":
		leader, leases = "none: nobody is granted anything", "(not known)"
	}
	fmt.Fprintf(w, "leader    %s\nrevision  %s\nleases    %s\n\n", report.Clean(leader), counter, leases)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tADDRESS\tSTATE\tREVISION\tDISK\tUSED\tQUOTA")
	for _, n := range st.Nodes {
		state := "follows"
		switch {
		case len(n.Problems) > 0:
			state = strings.Join(n.Problems, "; ")
		case n.Leader:
			state = "leads"
		}
		name := n.Name
		if name == "" {
			name = cmp.Or(n.ID, "-")
		}
		address, revision := cmp.Or(n.Address, "-"), "-"
		if n.Revision > 0 {
			revision = fmt.Sprint(n.Revision)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", report.Clean(name), address, report.Clean(state), revision,
			size(n.Disk), size(n.Used), size(n.Quota))
	}
	return t.Flush()
}

func size(bytes int64) string {
	switch {
	case bytes == 0:
		return "-"
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}

// trouble is what the exit code says.
func (st clusterStatus) trouble() error {
	if st.Leader == "" || st.Overdue > 0 {
		return exitCode(report.ExitService)
	}
	for _, n := range st.Nodes {
		if len(n.Problems) > 0 {
			return exitCode(report.ExitService)
		}
	}
	return nil
}
