package main

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keptLeases answers for leases by their numbers, as etcd does.
type keptLeases struct {
	clientv3.Lease
	all map[clientv3.LeaseID]clientv3.LeaseTimeToLiveResponse
}

func (k keptLeases) TimeToLive(_ context.Context, id clientv3.LeaseID, _ ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	r := k.all[id]
	return &r, nil
}

func TestALeaseThatEtcdDoesNotRemoveIsTold(t *testing.T) {
	etcd := keptLeases{all: map[clientv3.LeaseID]clientv3.LeaseTimeToLiveResponse{
		1: {TTL: 7, GrantedTTL: 10},
		2: {TTL: -3, GrantedTTL: 10}, // about to go
		3: {TTL: -644865, GrantedTTL: 10},
		4: {TTL: -1}, // gone meanwhile
	}}
	var leases []clientv3.LeaseStatus
	for id := range etcd.all {
		leases = append(leases, clientv3.LeaseStatus{ID: id})
	}
	n := len(leases)
	st := clusterStatus{Leader: "a", Leases: &n, Overdue: overdue(t.Context(), etcd, leases)}
	var out strings.Builder
	if err := st.write(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "leases    4, of which 1 ended more than 30s ago") || st.trouble() == nil {
		t.Errorf("%v\n%s", st.trouble(), out.String())
	}
}
