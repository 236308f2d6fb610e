package etcdcluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// children lists the processes whose parent is pid.
func children(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	var all []int
	for _, name := range stats {
		f := statFields(name)
		if len(f) > 1 && f[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			must(t, err)
			all = append(all, child)
		}
	}
	return all
}

// zombie: dead, and nobody has asked for its exit code yet.
func zombie(pid int) bool {
	f := statFields(fmt.Sprintf("/proc/%d/stat", pid))
	return len(f) > 0 && f[0] == "Z"
}

// statFields are the fields of a stat file behind the name, the state first.
func statFields(file string) []string {
	stat, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(rest)
}
