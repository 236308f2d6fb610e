package main

import (
	"testing"

	"github.com/stint-dev/stint/cmd/stint/internal/etcdnode"
)

func TestSizesAndCountsAreSaidAsPeopleDo(t *testing.T) {
	for bytes, want := range map[int64]string{0: "-", 20480: "20 KiB", 62 << 20: "62.0 MiB", 2 << 30: "2.0 GiB"} {
		if got := size(bytes); got != want {
			t.Errorf("%d bytes are %q; want %q", bytes, got, want)
		}
	}
	for d, want := range map[etcdnode.Restored]string{
		{Leases: 1, Keys: 1}: "1 lease and 1 key were",
		{Leases: 0, Keys: 3}: "0 leases and 3 keys were",
	} {
		if got := dropped(d); got != want {
			t.Errorf("%+v: %q; want %q", d, got, want)
		}
	}
}
