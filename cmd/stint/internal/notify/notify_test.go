package notify

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type heard struct {
	mu  sync.Mutex
	all []Message
}

func (h *heard) hear(m Message) { h.mu.Lock(); defer h.mu.Unlock(); h.all = append(h.all, m) }

func (h *heard) list() []Message { h.mu.Lock(); defer h.mu.Unlock(); return slices.Clone(h.all) }

// listening makes a server whose socket Send finds.
func listening(t *testing.T) (*Server, *heard) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	path := filepath.Join(dir, "n")
	s, err := Listen(path, h.hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); os.RemoveAll(dir) })
	t.Setenv("NOTIFY_SOCKET", path)
	return s, h
}

func TestEveryLineIsHeardInItsMeaning(t *testing.T) {
	for text, want := range map[string]Message{
		"WATCHDOG=1":                               {Beat: true},
		"WATCHDOG=1\n":                             {Beat: true},
		"READY=1\nSTATUS=two words\n":              {Ready: true, Status: "two words"},
		"WATCHDOG=trigger":                         {Trigger: true},
		"STOPPING=1":                               {Stopping: true},
		"EXTEND_TIMEOUT_USEC=1500000":              {Extend: 1500 * time.Millisecond},
		"WATCHDOG_USEC=20000000":                   {Interval: 20 * time.Second},
		"MAINPID=7":                                {MainPID: true},
		"WATCHDOG=0\nREADY=0\nX\n=\nY=1":           {},
		"EXTEND_TIMEOUT_USEC=-1":                   {},
		"EXTEND_TIMEOUT_USEC=18446744073709551615": {},
		"WATCHDOG= 1":                              {},
		"":                                         {},
	} {
		if got := parse([]byte(text)); got != want {
			t.Errorf("%q: %+v; want %+v", text, got, want)
		}
	}
}

func FuzzAnyDatagramIsRead(f *testing.F) {
	f.Add([]byte("WATCHDOG=1\nEXTEND_TIMEOUT_USEC=9"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m := parse(b); m.Extend < 0 || m.Interval < 0 || strings.Contains(m.Status, "\n") {
			t.Errorf("%q: %+v", b, m)
		}
	})
}

// Whoever judges a silence hears first what was said: no goroutine that has still
// to run stands between.
func TestWhatWasSaidBeforeADrainIsHeard(t *testing.T) {
	s, h := listening(t)
	for n := 1; n <= 200; n++ {
		if err := Try("WATCHDOG=1"); err != nil {
			t.Fatal(err)
		}
		s.Drain()
		if got := len(h.list()); got != n {
			t.Fatalf("%d of %d were heard", got, n)
		}
	}
}

// BARRIER=1 carries the end of a pipe, and waits until nobody has it open.
func TestABarrierIsLiftedWhenAllBeforeItWasHeard(t *testing.T) {
	_, h := listening(t)
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	r := os.NewFile(uintptr(ends[0]), "pipe")
	defer r.Close()
	if err := Try("READY=1"); err != nil {
		t.Fatal(err)
	}
	to := &unix.SockaddrUnix{Name: os.Getenv("NOTIFY_SOCKET")}
	if err := unix.Sendmsg(c, []byte("BARRIER=1"), unix.UnixRights(ends[1]), to, 0); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(ends[1])
	_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Fatalf("the pipe is still open: %d, %v", n, err)
	}
	if all := h.list(); len(all) != 2 || !all[0].Ready {
		t.Errorf("heard %+v; want READY, then the barrier", all)
	}
}

func TestADatagramThatWasCutOffIsNotHeard(t *testing.T) {
	s, h := listening(t)
	if err := Try("WATCHDOG=1\nSTATUS=" + strings.Repeat("x", longest)); err != nil {
		t.Fatal(err)
	}
	s.Drain()
	if all := h.list(); len(all) != 0 {
		t.Errorf("heard %+v", all)
	}
}

func TestOnlyThisUserCanSpeakToTheSocket(t *testing.T) {
	listening(t)
	info, err := os.Stat(os.Getenv("NOTIFY_SOCKET"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestAWatchdogForAnotherProcessIsNotOurs(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "3000000")
	for pid, want := range map[string]time.Duration{"": 3 * time.Second, "1": 0} {
		t.Setenv("WATCHDOG_PID", pid)
		if got := Watchdog(); got != want {
			t.Errorf("WATCHDOG_PID=%s: %v; want %v", pid, got, want)
		}
	}
}

// manager is a service manager's end of NOTIFY_SOCKET, which is read by the test.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // a test's own folder may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "n")
	m, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return m
}

func TestAnOfferWaitsForNobody(t *testing.T) {
	busy := manager(t)
	var err error
	said := 0
	for err == nil && said < 1e6 {
		if err = Offer("WATCHDOG=1"); err == nil {
			said++
		}
	}
	if err == nil || said == 0 {
		t.Fatalf("%d were taken, and then: %v", said, err)
	}
	for range said {
		if n, err := busy.Read(make([]byte, 100)); err != nil || n != len("WATCHDOG=1") {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	if err := Offer("READY=1"); err != nil {
		t.Errorf("a manager that has caught up: %v", err)
	}
}

// A command that never stops talking does not keep whoever judges it.
func TestADrainEndsAlthoughThereIsAlwaysMore(t *testing.T) {
	dir, err := os.MkdirTemp("", "n")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "n"))
	var heard, enough atomic.Int64
	s, err := Listen(os.Getenv("NOTIFY_SOCKET"), func(Message) {
		if heard.Add(1); enough.Load() == 0 {
			Send("STATUS=one more")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	Send("STATUS=the first")
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		s.Drain()
	}()
	select {
	case <-drained:
	case <-time.After(20 * time.Second):
		t.Errorf("it goes on after %d datagrams", heard.Load())
	}
	enough.Store(1)
	s.Close()
	<-drained
}

// What is left by a drain that ends early is heard without a further word.
func TestWhatADrainLeavesIsHeardByItself(t *testing.T) {
	s, h := listening(t)
	s.mu.Lock() // nothing is heard meanwhile
	for range 3 {
		if err := Try("WATCHDOG=1"); err != nil {
			t.Fatal(err)
		}
	}
	s.most = 1
	s.mu.Unlock()
	for end := time.Now().Add(20 * time.Second); len(h.list()) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of 3 were heard", len(h.list()))
		}
	}
}

// systemd does not hear a process that has ended before it was read.
func TestWhatIsDeliveredWasReadBeforeItsSenderGoesOn(t *testing.T) {
	m := manager(t)
	_ = m.SetReadDeadline(time.Now().Add(20 * time.Second))
	done := make(chan error, 1)
	go func() { done <- Deliver("WATCHDOG=1") }()
	var files []int
	for _, want := range []string{"WATCHDOG=1", "BARRIER=1"} {
		b, oob := make([]byte, 100), make([]byte, 100)
		n, oobn, _, _, err := m.ReadMsgUnix(b, oob)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("read %q, %v; want %q", b[:n], err, want)
		}
		files = append(files, filesIn(oob[:oobn])...)
	}
	select {
	case err := <-done:
		t.Errorf("it went on before: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if len(files) != 1 {
		t.Fatalf("%d files came along; want 1", len(files))
	}
	_ = unix.Close(files[0])
	if err := <-done; err != nil {
		t.Error(err)
	}
}
