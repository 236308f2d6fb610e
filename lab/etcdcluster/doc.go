// Package etcdcluster runs real etcd servers for tests and measurements: each
// member is a process of its own, made from the binary that asks for it, on
// loopback, with a gate between it and its peers that can be closed.
package etcdcluster
