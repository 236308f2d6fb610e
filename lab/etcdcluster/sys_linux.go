package etcdcluster

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent has the kernel kill the child when its parent dies, however it
// dies, and also while the child is stopped.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// isStopped reports whether a signal has stopped all of the process.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may hold anything but this
	return len(rest) > 0 && rest[0] == 'T'
}

// owner tells which of the processes dialled a loopback connection: the gate of
// a member serves all its peers under one address. It is the process that has a
// file descriptor of the socket at the other end. -1: none of them, or one that
// has just died.
func owner(c net.Conn, pids []int) int {
	inode := socketInode(c.RemoteAddr().(*net.TCPAddr).Port, c.LocalAddr().(*net.TCPAddr).Port)
	if inode == "" {
		return -1
	}
	link := "socket:[" + inode + "]"
	for i, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/fd", pid)
		fds, err := os.ReadDir(dir)
		if pid == 0 || err != nil {
			continue
		}
		for _, fd := range fds {
			if to, err := os.Readlink(dir + "/" + fd.Name()); err == nil && to == link {
				return i
			}
		}
	}
	return -1
}

// socketInode finds the socket on 127.0.0.1:local that is connected to
// 127.0.0.1:remote.
func socketInode(local, remote int) string {
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil {
		return ""
	}
	for row := range strings.Lines(string(table)) {
		f := strings.Fields(row)
		if len(f) > 9 && port(f[1]) == local && port(f[2]) == remote {
			return f[9]
		}
	}
	return ""
}

func port(address string) int {
	_, hex, _ := strings.Cut(address, ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	if err != nil {
		return -1
	}
	return int(n)
}
