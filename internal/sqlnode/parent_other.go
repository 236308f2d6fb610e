//go:build !linux

package sqlnode

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {} // Close has to do
