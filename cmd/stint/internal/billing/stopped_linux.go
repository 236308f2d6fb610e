package billing

import "golang.org/x/sys/unix"

// hasStopped returns when the child has really stopped, or is gone. Its exit, if
// any, stays for its Wait.
func hasStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		switch err {
		case unix.EINTR:
		case unix.ECHILD: // gone
			return nil
		default:
			return err
		}
	}
}
