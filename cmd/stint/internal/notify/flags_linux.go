package notify

import "golang.org/x/sys/unix"

const recvFlags = unix.MSG_CMSG_CLOEXEC
