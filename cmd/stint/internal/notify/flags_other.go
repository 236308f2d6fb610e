//go:build unix && !linux

package notify

const recvFlags = 0
