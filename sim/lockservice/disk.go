package lockservice

import (
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// disk is what a node finds after a crash: raft's log and snapshot. It changes
// only through world.Disk.
type disk struct {
	*raft.MemoryStorage
	voters []uint64
	last   uint64 // index of the last snapshot that was written
}

// format empties the disk, but for a first snapshot.
func (d *disk) format(s *Service, snapshot []byte) {
	d.voters = nil
	for _, n := range s.nodes {
		d.voters = append(d.voters, n.id)
	}
	d.last = 1
	d.MemoryStorage = raft.NewMemoryStorage()
	must(d.ApplySnapshot(&pb.Snapshot{
		Data:     snapshot,
		Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: d.voters}, Index: new(uint64(1)), Term: new(uint64(1))},
	}))
	must(d.SetHardState(&pb.HardState{Term: new(uint64(1)), Vote: new(uint64(0)), Commit: new(uint64(1))}))
}

// save writes what a Ready wants kept.
func (d *disk) save(rd raft.Ready) {
	if !raft.IsEmptySnap(rd.Snapshot) {
		must(d.ApplySnapshot(rd.Snapshot))
		d.last = rd.Snapshot.GetMetadata().GetIndex()
	}
	must(d.Append(rd.Entries))
	if !raft.IsEmptyHardState(rd.HardState) {
		must(d.SetHardState(rd.HardState))
	}
}

// replaced counts the entries of the log that new ones take the place of. None of
// them was committed.
func (d *disk) replaced(entries []*pb.Entry) int {
	last, err := d.LastIndex()
	if err != nil || len(entries) == 0 || entries[0].GetIndex() > last {
		return 0
	}
	return int(last - entries[0].GetIndex() + 1)
}

// keep is how many entries stay behind a snapshot, for nodes that are a little
// behind.
const keep = 8

// compact replaces the log up to an index by a snapshot.
func (d *disk) compact(index uint64, data []byte) {
	if index <= d.last {
		return // a newer one came from the leader meanwhile
	}
	if _, err := d.CreateSnapshot(index, &pb.ConfState{Voters: d.voters}, data); err != nil {
		panic(err)
	}
	d.last = index
	if first, err := d.FirstIndex(); err == nil && index > first+keep {
		must(d.Compact(index - keep))
	}
}

// must is for what can only fail when the simulator is wrong.
func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("lockservice: %v", err))
	}
}

// quiet is raft's logger: it has nothing to say, and what is fatal is a bug of
// the simulator.
type quiet struct{}

func (quiet) Debug(...any)            {}
func (quiet) Debugf(string, ...any)   {}
func (quiet) Error(...any)            {}
func (quiet) Errorf(string, ...any)   {}
func (quiet) Info(...any)             {}
func (quiet) Infof(string, ...any)    {}
func (quiet) Warning(...any)          {}
func (quiet) Warningf(string, ...any) {}
func (quiet) Fatal(v ...any)          { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
func (quiet) Panic(v ...any) { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) {
	panic(fmt.Sprintf(f, v...))
}
