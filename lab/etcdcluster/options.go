package etcdcluster

import "time"

// Options sets up a cluster. The zero value is plain HTTP without users, a
// heartbeat of 50 ms and an election timeout of 500 ms, which allows leases from
// 1 s, in a temporary folder.
type Options struct {
	Heartbeat, Election time.Duration // whole milliseconds; Election at least 5 Heartbeat
	// Dir is where each member keeps its data, in a folder of its name, and
	// where its log is. Empty: a temporary folder that Close removes.
	Dir          string
	Quota        int64         // bytes of a member's database; zero: etcd's default
	FeatureGates string        // as etcd's flag takes them: "LeaseCheckpoint=true"
	NoSync       bool          // no fsync: a process that is killed loses nothing by it, a machine would
	RootPassword string        // if set, users are switched on, and this is root's
	AuthTokenTTL time.Duration // whole seconds; zero: etcd's default of 300 s
	TLS          TLS           // towards clients
	PeerTLS      TLS           // between members
	// ClientTLS is what ClientConfig gives to clients where TLS is set: the CA that
	// they trust, and their own certificate if they have one.
	ClientTLS TLS
	// Program runs the members, in place of this process's own: one that calls
	// Main, too. Environ is what its environment has besides this process's.
	Program string
	Environ []string
}

// TLS names PEM files. Without a Cert, a member speaks plain HTTP. etcd reads the
// certificate anew for each connection.
type TLS struct {
	Cert, Key, CA string
	ClientCerts   bool // members: clients have to show a certificate of the CA
}

func (o Options) withDefaults() Options {
	if o.Heartbeat == 0 {
		o.Heartbeat = 50 * time.Millisecond
	}
	if o.Election == 0 {
		o.Election = 10 * o.Heartbeat
	}
	if o.AuthTokenTTL == 0 {
		o.AuthTokenTTL = 300 * time.Second
	}
	return o
}
