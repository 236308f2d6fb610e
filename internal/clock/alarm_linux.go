package clock

import (
	"fmt"
	"os"

	"github.com/stint-dev/stint/authority"
	"golang.org/x/sys/unix"
)

// fdAlarm is a timerfd on CLOCK_BOOTTIME, read by one goroutine that parks in
// the runtime's poller.
type fdAlarm struct {
	file *os.File
	c    chan struct{}
	done chan struct{}
}

func newBootAlarm(authority.Clock) (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("clock: no timer on the boot clock: %w", err)
	}
	a := &fdAlarm{file: os.NewFile(uintptr(fd), "timerfd"), c: make(chan struct{}, 1), done: make(chan struct{})}
	go a.read()
	return a, nil
}

func (a *fdAlarm) read() {
	defer close(a.done)
	var count [8]byte
	for {
		if _, err := a.file.Read(count[:]); err != nil {
			return // closed
		}
		ring(a.c)
	}
}

func (a *fdAlarm) C() <-chan struct{} { return a.c }

func (a *fdAlarm) Set(at authority.Instant) {
	// Zero would disarm; the clock has long passed 1 ns.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(at)))}
	conn, err := a.file.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = conn.Control(func(fd uintptr) {
		if err := unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
			panic("stint: the timer on the boot clock cannot be set: " + err.Error())
		}
	})
}

func (a *fdAlarm) Close() {
	a.file.Close()
	<-a.done
}
