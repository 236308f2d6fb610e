// Package etcdtests holds backends/etcdlease, and stint on it, to their promises
// on real etcd servers: under lost answers, cut links, frozen and killed members.
// All of it is tests.
package etcdtests
