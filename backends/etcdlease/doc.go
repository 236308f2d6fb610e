// Package etcdlease is an authority on etcd, embedded or remote: it speaks to
// the servers through etcd's own client and through nothing of its lock
// library, whose locks break the promises that a lease here makes (its end is
// told after a rival's grant, its release is not conditional).
//
// By URL, authority.Open(ctx, "etcds://db1,db2:2379,db3/stint?ca=/etc/stint/ca.pem"):
//
//	etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?parameter=value&…]
//
// etcd:// is plain and etcds:// is TLS, with the parameters ca, cert, key and
// server-name. User and password may come from user-file, user-env,
// password-file and password-env. Files are read again when they are needed, so
// passwords and certificates are rotated without a restart. What a URL does not
// know it refuses. docs/etcd.md has the rest.
package etcdlease
