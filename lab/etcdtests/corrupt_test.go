package etcdtests

import (
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/lab/etcdcluster"
)

// corrupt is what a member does that finds its data to differ from another's.
func (w *world) corrupt(action pb.AlarmRequest_AlarmAction) {
	w.Helper()
	got, err := w.raw.MemberList(w.long())
	w.must(err)
	_, err = pb.NewMaintenanceClient(w.raw.ActiveConnection()).Alarm(w.long(),
		&pb.AlarmRequest{Action: action, MemberID: got.Members[0].ID, Alarm: pb.AlarmType_CORRUPT})
	w.must(err)
}

func TestACorruptEtcdGrantsNothingAndSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, etcdcluster.Options{NoSync: true})
	o := calm
	c := w.client(w.url("etcd", "", ""), o)
	l := w.lease(c, "job")
	w.corrupt(pb.AlarmRequest_ACTIVATE)
	if err := w.refused(c, "alarm CORRUPT"); !errors.Is(err, authority.ErrBroken) {
		t.Errorf("acquiring: %v does not match ErrBroken", err)
	}
	w.renewed(l, o) // that changes nothing
	w.renewed(l, o)
	w.corrupt(pb.AlarmRequest_DEACTIVATE)
	w.works(c, "other")
	w.renewed(l, o)
	w.must(l.Release(w.long()))
	w.noKeys("job")
}
