package warden

import (
	"encoding/json"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/stint-dev/stint/authority"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

func TestTheGuardProcessActsAfterStintWouldAndBeforeTheStopTime(t *testing.T) {
	stop := authority.Instant(time.Hour)
	for _, c := range []struct{ grace, lead time.Duration }{
		{time.Second, 100 * ms}, {0, 100 * ms}, {100 * ms, 20 * ms}, {10 * ms, 20 * ms}, {time.Minute, 5 * ms},
	} {
		got := timesOf(Orders{Stop: stop, Grace: c.grace, Lead: c.lead})
		if got.kill >= stop || got.kill <= stop.Add(-c.lead) {
			t.Errorf("%+v: KILL %v before the stop time", c, stop.Sub(got.kill))
		}
		if got.term > got.kill || got.term <= stop.Add(-max(c.grace, c.lead)) {
			t.Errorf("%+v: TERM %v before the stop time", c, stop.Sub(got.term))
		}
	}
}

// Whatever wakes it, step does what is due by all that it has heard.
func TestTheGuardProcessWaitsForTheStopTimeThatItHasHeardLast(t *testing.T) {
	now := clock.Boot().Now()
	first := now.Add(time.Minute)
	orders := Orders{Name: "k", Mark: "1.nobody", Grace: 100 * ms, Lead: 20 * ms, Stop: first}
	w := watch{clock: clock.Boot(), out: report.NewPrinter(os.Stderr)}
	next, over := w.step(orders, false)
	if over || next != first.Add(-50*ms) {
		t.Errorf("it looks again %v before the stop time; want 50ms", first.Sub(next))
	}
	orders.Stop = now.Add(time.Hour)
	if next, over = w.step(orders, false); over || next != orders.Stop.Add(-50*ms) || w.told {
		t.Errorf("renewed: it looks again %v before the stop time (told: %v)", orders.Stop.Sub(next), w.told)
	}
	orders.Told = true
	if next, over = w.step(orders, false); over || next != orders.Stop.Add(-10*ms) || w.told {
		t.Errorf("stint has told the command: it looks again %v before the stop time (told: %v)", orders.Stop.Sub(next), w.told)
	}
	orders.Done = true
	if _, over = w.step(orders, false); !over {
		t.Error("it does not end when nothing of the command is left")
	}
}

func TestTheGuardProcessOfADeadStintEndsOnlyWhenNothingIsFoundForAWhile(t *testing.T) {
	w := watch{clock: clock.Boot(), out: report.NewPrinter(os.Stderr)}
	orders := Orders{Name: "k", Mark: "1.nobody", Stop: w.clock.Now().Add(time.Hour)}
	begun := w.clock.Now()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(ms) {
		if _, over := w.step(orders, true); over {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
	if d := w.clock.Now().Sub(begun); d < settled {
		t.Errorf("it ended after %v", d)
	}
	if _, over := (&watch{}).step(Orders{}, true); !over {
		t.Error("it waits for a stint that died before it gave an order")
	}
}

// A line may come in pieces; the end of the pipe comes after all that was said.
func TestWhatStintSaidIsHeardBeforeItsDeath(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	in, err := newInbox(ends[0])
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if _, err := syscall.Write(ends[1], b); err != nil {
			t.Fatal(err)
		}
	}
	line, err := json.Marshal(Orders{Name: "k", Mark: "1.x", Stop: 7})
	if err != nil {
		t.Fatal(err)
	}
	write(line[:5])
	if o, dead := in.drain(); o.Mark != "" || dead {
		t.Errorf("half a line: %+v, %v", o, dead)
	}
	write(append(line[5:], "\n{\"stop\":9}\n{\"to"...))
	if o, dead := in.drain(); o.Mark != "1.x" || o.Stop != 9 || dead {
		t.Errorf("%+v, %v; want the last word of each", o, dead)
	}
	write([]byte("ld\":true}\n"))
	_ = syscall.Close(ends[1])
	in.read() // ends with the pipe
	if o, dead := in.drain(); !o.Told || !dead {
		t.Errorf("%+v, %v; want told, and dead", o, dead)
	}
}
