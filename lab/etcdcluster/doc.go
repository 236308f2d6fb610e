// Package etcdcluster runs real etcd servers for tests and measurements: each
// member is a process of its own, made from the binary that asks for it, on
// loopback, with gates on its links that can be cut, delayed and opened.
//
//	func TestMain(m *testing.M) {
//		etcdcluster.Main() // does not return in a member's process
//		os.Exit(m.Run())
//	}
//
//	c := etcdcluster.Run(t, 3, etcdcluster.Options{})
//	client, err := clientv3.New(c.ClientConfig(c.Door()))
//	c.Kill(c.Leader())
//
// Traffic between members, and between clients and members, runs through the
// process that started the cluster. A member that is cut off hears nothing and is
// not heard, while its process and its connections live, as behind a switch that
// drops packets. The addresses that members advertise are those of the gates, so
// a member that restarts may listen anywhere: no port is chosen before it is
// taken.
//
// No member survives the process that started it: its standard input ends then,
// and on Linux the kernel kills it, even while it is stopped.
package etcdcluster
