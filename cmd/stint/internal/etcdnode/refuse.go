package etcdnode

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// refuseRepeats refuses data that would hand out tokens again, as far as that
// can be told:
//
//   - the data says that it is another cluster's, or is ahead of its own log: a
//     snapshot that was restored without stint restore;
//   - the mark beside the folder is ahead of it: a folder that was put back from
//     a backup, was emptied, or was replaced.
//
// It cannot be told of a folder that was put back together with its mark, of one
// that was copied to a host without a mark, and of data that an etcd other than
// stint's served in between.
func (s Settings) refuseRepeats(f found, m mark) error {
	refuse := func(what string, a ...any) error {
		return &Refusal{Kind: ErrRepeats, What: fmt.Sprintf(what, a...),
			Data: "it would hand out again tokens that were handed out since, and a fence would take a new holder for an old one; nothing was changed",
			Do: "restore it with its counter raised: stint restore FILE --data NEWFOLDER (FILE is a snapshot, or the folder itself); " +
				"of several nodes, the others go on without this one"}
	}
	switch {
	case f.fresh && m.Cluster != "":
		return refuse("the data folder %s is empty, but a node has run on it, up to revision %d (says %s)", s.Data, m.Revision, markFile(s.Data))
	case f.fresh:
		return nil
	case f.origin.Cluster != "" && f.origin.Cluster != f.cluster:
		return refuse("the data in %s was restored from a snapshot, but its counter of tokens was not raised (it is of the cluster %s, and was the cluster %s's)",
			s.Data, f.cluster, f.origin.Cluster)
	case f.index < f.origin.Index:
		return refuse("the data in %s was restored from a snapshot, but its counter of tokens was not raised (its log has %d entries, and had at least %d)",
			s.Data, f.index, f.origin.Index)
	case m.Cluster == f.cluster && f.index < m.Index:
		return refuse("the data folder %s is older than the last node that ran on it: its log ends at %d, and was at %d (says %s)",
			s.Data, f.index, m.Index, markFile(s.Data))
	case m.Cluster != "" && m.Cluster != f.cluster && f.revision <= m.Revision:
		return refuse("the data in %s is another cluster's, at revision %d, and the one before it was at %d already (says %s)",
			s.Data, f.revision, m.Revision, markFile(s.Data))
	}
	return nil
}

// refuseUsers: beyond loopback, somebody has to say who may do what.
func (s Settings) refuseUsers(f found) error {
	if clients, _ := s.beyond(); clients && s.RootPassword == "" && !f.users {
		return s.refuseSettings(fmt.Errorf("--listen %s can be reached from other hosts, and no users are set up: "+
			"give --root-password-file FILE once (then stint serve user add NAME), or listen on loopback", s.Listen))
	}
	return nil
}

// refuseMembers: etcd reads its members from the data and would silently not
// look at --peers.
func (s Settings) refuseMembers(f found) error {
	if len(f.members) == 0 {
		return nil
	}
	var had, want []string
	for _, raw := range f.members {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		had = append(had, u.Host)
		if own := s.peerURL(s.self()); u.Host == own.Host && u.Scheme != own.Scheme && len(s.Peers) > 0 {
			return s.refuseScheme(u.Scheme == "https")
		}
	}
	for _, p := range s.peers() {
		want = append(want, p.Address)
	}
	slices.Sort(had)
	slices.Sort(want)
	stranger := slices.ContainsFunc(had, func(a string) bool { return !slices.Contains(want, a) })
	settled := f.index > uint64(len(want))+8 // before, the nodes are still being noted down
	if !stranger && (len(had) == len(want) || !settled) {
		return nil
	}
	return s.refuseSettings(fmt.Errorf("the data in %s is of the nodes at %s, and --peers says %s: nodes of existing data are changed with etcdctl member, "+
		"or by stint restore of a snapshot with other --peers", s.Data, strings.Join(had, ", "), strings.Join(want, ", ")))
}

// refuseScheme: the others call this node by the address in the data, and would
// wait for it forever.
func (s Settings) refuseScheme(inData bool) error {
	says := map[bool]string{true: "TLS", false: "without TLS"}
	return s.refuseSettings(fmt.Errorf("by the data in %s the nodes speak %s with each other, and by --peer-cert %s: was it restored %s --peer-tls? "+
		"Restore it again, on all nodes", s.Data, says[inData], says[!inData], map[bool]string{true: "with", false: "without"}[inData]))
}

const (
	leastRoom  = 192 << 20 // two files of the log, which are reserved at once, and some of the database
	leastFiles = 160       // etcd ends itself at 150
)

// refuseHost: what etcd would find out in the middle of its start, and end for.
func (s Settings) refuseHost() error {
	free, err := freeSpace(s.Data)
	if err == nil && free < leastRoom {
		return &Refusal{Kind: ErrDiskFull, What: fmt.Sprintf("there are only %d MiB left on the disk of %s", free>>20, s.Data),
			Data: "the node was not started, and nothing was changed", Do: fmt.Sprintf("make room: a node wants at least %d MiB", leastRoom>>20)}
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil && files.Cur < leastFiles {
		return s.refuseSettings(fmt.Errorf("this process may open only %d files: raise its limit (ulimit -n, LimitNOFILE=) to at least 1024", files.Cur))
	}
	return nil
}

// freeSpace is what is left for this user on the disk of dir, in bytes.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
