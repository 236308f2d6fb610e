//go:build !linux

package etcdcluster

import (
	"net"
	"syscall"
)

func dieWithParent(*syscall.SysProcAttr) {} // the end of its standard input has to do

func isStopped(int) bool { return true } // believed without a look

// owner cannot tell here: one link, which nothing cuts, serves for all.
func owner(_ net.Conn, pids []int) int { return len(pids) }
