package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcd removes a lease within half a second of its end, or seconds where
// thousands end at once. One that is there much longer keeps names taken for
// nobody: the leader fails to remove it, and its log says why.
const (
	muchLonger = 30 * time.Second
	mostAsked  = 1000 // leases, one request each
)

// overdue counts the leases that have ended long ago, and are there.
func overdue(ctx context.Context, c clientv3.Lease, leases []clientv3.LeaseStatus) (n int) {
	for _, l := range leases[:min(len(leases), mostAsked)] {
		r, err := c.TimeToLive(ctx, l.ID)
		if err != nil {
			return n // ctx, most likely
		}
		// One that is not there has no length.
		if r.GrantedTTL > 0 && time.Duration(r.TTL)*time.Second < -muchLonger {
			n++
		}
	}
	return n
}
