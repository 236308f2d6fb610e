// Package etcdlease is an authority on etcd, embedded or remote: it speaks to
// the servers through etcd's own client and through nothing of its lock
// library, whose locks break the promises that a lease here makes (its end is
// told after a rival's grant, its release is not conditional).
package etcdlease
