package sqlnode

import "syscall"

// dieWithParent has the kernel kill the server when its parent dies, however it
// dies.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
