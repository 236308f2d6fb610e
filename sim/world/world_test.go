package world

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestOneInstantHasAnOrder(t *testing.T) {
	w := New(1)
	var got []string
	say := func(s string) func() { return func() { got = append(got, s) } }
	w.At(time.Second, OrderTimer, say("timer"))
	w.At(time.Second, OrderMessage, say("first message"))
	w.At(time.Second, OrderMessage, say("second message"))
	w.At(time.Second, OrderFault, say("fault"))
	w.At(time.Second, OrderDisk, say("never")).Stop()
	w.At(0, OrderLast, say("earlier"))
	w.Run(time.Second)
	want := []string{"earlier", "fault", "first message", "second message", "timer"}
	if !slices.Equal(got, want) || w.Now() != time.Second {
		t.Errorf("at %v: %q, want %q", w.Now(), got, want)
	}
}

func TestAnAlarmFollowsItsOwnClock(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(m *Machine)
		mono   time.Duration // true time at which each clock shows 10 s
		wall   time.Duration
	}{
		{"nothing", func(m *Machine) {}, 10 * time.Second, 10 * time.Second},
		{"wall steps back", func(m *Machine) { m.Wall.Jump(-3 * time.Second) }, 10 * time.Second, 13 * time.Second},
		{"wall steps past it", func(m *Machine) { m.Wall.Jump(7 * time.Second) }, 10 * time.Second, 4 * time.Second},
		{"fast by half", func(m *Machine) { m.Mono.SetRate(500_000) }, 8 * time.Second, 10 * time.Second},
		{"slow by a fifth", func(m *Machine) { m.Mono.SetRate(-200_000) }, 11500 * time.Millisecond, 10 * time.Second},
		{"suspended", func(m *Machine) { m.Suspend(8 * time.Second) }, 18 * time.Second, 12 * time.Second},
		{"paused", func(m *Machine) { m.Pause(8 * time.Second) }, 12 * time.Second, 12 * time.Second},
		{"paused for a short time", func(m *Machine) { m.Pause(time.Second) }, 10 * time.Second, 10 * time.Second},
	} {
		w := New(1)
		m := w.Machine("a")
		m.MonoSleeps = true
		var mono, wall time.Duration
		m.Mono.Alarm(instant(10*time.Second), OrderTimer, func() { mono = w.Now() })
		m.Wall.Alarm(instant(10*time.Second), OrderTimer, func() { wall = w.Now() })
		w.At(4*time.Second, OrderFault, func() { c.change(m) })
		w.Run(time.Minute)
		if mono != c.mono || wall != c.wall {
			t.Errorf("%s: went off at %v and %v, want %v and %v", c.what, mono, wall, c.mono, c.wall)
		}
	}
}

func TestARateIsExact(t *testing.T) {
	for _, ppm := range []int64{-900_000, -1000, -1, 0, 1, 1000, 3_000_000} {
		w := New(1)
		m := w.Machine("a")
		m.Mono.SetRate(ppm)
		for _, at := range []time.Duration{1, 999, time.Millisecond, 10 * time.Second, 24*time.Hour + 1} {
			var alarm time.Duration
			w2 := New(1)
			m2 := w2.Machine("a")
			m2.Mono.SetRate(ppm)
			m2.Mono.Alarm(instant(at), OrderTimer, func() { alarm = w2.Now() })
			w2.Run(1 << 60)
			if m.Mono.at(alarm) < instant(at) || m.Mono.at(alarm-1) >= instant(at) {
				t.Errorf("%d ppm: the alarm for %v went off at %v, when the clock showed %v", ppm, at, alarm, m.Mono.at(alarm))
			}
		}
	}
}

func TestPausedMachinesHearLaterAndCrashedOnesNever(t *testing.T) {
	w := New(1)
	a, b := w.Machine("a"), w.Machine("b")
	var got []string
	say := func(s string) func() { return func() { got = append(got, fmt.Sprintf("%v %s", w.Now(), s)) } }
	w.Net.Default.Delay = time.Second
	b.Pause(4 * time.Second)
	b.Mono.After(2*time.Second, say("timer"))
	stopped := b.Mono.After(3*time.Second, say("stopped timer"))
	w.Net.Send(a, b, say("message"))
	w.At(3500*time.Millisecond, OrderFault, func() { stopped.Stop() })
	w.Run(5 * time.Second)

	w.Net.Send(a, b, say("lost in the crash"))
	b.Mono.After(time.Second, say("timer of the dead"))
	b.OnStart(say("started"))
	b.Crash()
	w.Run(7 * time.Second)
	b.Restart()
	w.Run(10 * time.Second)
	if want := []string{"4s message", "4s timer", "7s started"}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// TestAnAnswerReachesOnlyTheProcessThatAsked: whether the asker crashes while the
// question, the work on it or the answer is under way, and whether the answer
// comes at once or later, its next start hears nothing. Nor does a receiver
// answer what an earlier start of it was asked.
func TestAnAnswerReachesOnlyTheProcessThatAsked(t *testing.T) {
	for _, c := range []struct {
		crash string // who
		at    time.Duration
		want  int
	}{
		{"a", 500 * time.Millisecond, 0}, {"a", 1500 * time.Millisecond, 0}, {"a", 2500 * time.Millisecond, 0}, {"a", 4 * time.Second, 1},
		{"b", 500 * time.Millisecond, 1}, {"b", 1500 * time.Millisecond, 0}, {"b", 2500 * time.Millisecond, 1},
	} {
		w := New(1)
		a, b := w.Machine("a"), w.Machine("b")
		w.Net.Default.Delay = time.Second
		heard := 0
		w.Net.Call(a, b, func(answer func(func())) {
			w.At(2*time.Second, OrderSelf, func() { answer(func() { heard++ }) })
		})
		m := w.Find(c.crash)
		w.At(c.at, OrderFault, m.Crash)
		w.At(c.at+time.Millisecond, OrderFault, m.Restart)
		w.Run(10 * time.Second)
		if heard != c.want {
			t.Errorf("%s crashes at %v: %d answers were heard, want %d", c.crash, c.at, heard, c.want)
		}
	}
}

func TestAPauseInAPauseEndsWithTheLaterOne(t *testing.T) {
	for _, c := range []struct {
		first, second time.Duration // at 0 and at 1 s; zero: until Resume, at 9 s
		want          time.Duration
	}{
		{4 * time.Second, time.Second, 4 * time.Second},
		{4 * time.Second, 5 * time.Second, 6 * time.Second},
		{4 * time.Second, 0, 9 * time.Second},
		{0, time.Second, 9 * time.Second},
	} {
		w := New(1)
		m := w.Machine("a")
		var heard time.Duration
		m.Pause(c.first)
		m.Deliver(OrderMessage, func() { heard = w.Now() })
		w.At(time.Second, OrderFault, func() { m.Pause(c.second) })
		w.At(9*time.Second, OrderFault, m.Resume)
		w.Run(20 * time.Second)
		if heard != c.want {
			t.Errorf("%v, then %v: it goes on at %v, want %v", c.first, c.second, heard, c.want)
		}
	}
}

func TestLinksFailInOneDirection(t *testing.T) {
	w := New(7)
	a, b := w.Machine("a"), w.Machine("b")
	count := func(link Link) (there, back int, inOrder bool) {
		*w.Net.Link(a, b) = link
		inOrder = true
		for i := range 2000 {
			w.Net.Send(a, b, func() { inOrder = inOrder && there <= i; there = max(there, i) })
			w.Net.Send(b, a, func() { back++ })
			w.Run(w.Now() + time.Millisecond)
		}
		w.Run(w.Now() + time.Minute)
		return there, back, inOrder
	}
	if _, back, _ := count(Link{Cut: true}); back != 2000 || w.Net.Lost != 2000 {
		t.Errorf("cut one way: %d came back, %d lost", back, w.Net.Lost)
	}
	if there, _, inOrder := count(Link{Delay: time.Millisecond, Jitter: 50 * time.Millisecond}); there != 1999 || !inOrder {
		t.Errorf("jitter alone overtakes: %v, last %d", inOrder, there)
	}
	if _, _, inOrder := count(Link{Jitter: 50 * time.Millisecond, Reorder: 500_000}); inOrder {
		t.Error("with Reorder, nothing overtook")
	}
	lost := w.Net.Lost
	count(Link{Loss: 100_000, Twice: 100_000})
	if lost = w.Net.Lost - lost; lost < 120 || lost > 280 || w.Net.Doubled < 120 || w.Net.Doubled > 280 {
		t.Errorf("of 2000 at one in ten: %d lost, %d doubled", lost, w.Net.Doubled)
	}
}

func TestACrashLosesWhatWasNotSynced(t *testing.T) {
	w := New(1)
	m := w.Machine("a")
	m.Disk.Cost = 10 * time.Millisecond
	var disk []int
	done := 0
	write := func(n int) { m.Disk.Write(func() { disk = append(disk, n) }) }
	write(1)
	write(2)
	m.Disk.Sync(func() { done++ })
	write(3)
	m.Disk.Sync(func() { done++ })
	write(4)
	w.Run(15 * time.Millisecond)
	if !slices.Equal(disk, []int{1, 2}) || done != 1 {
		t.Fatalf("after the first sync: %v, %d done", disk, done)
	}
	m.Crash()
	w.Run(time.Second)
	if !slices.Equal(disk, []int{1, 2}) || done != 1 {
		t.Errorf("after the crash: %v, %d done", disk, done)
	}
	m.Restart()
	write(5)
	m.Disk.Sync(func() { done++ })
	w.Run(2 * time.Second)
	if !slices.Equal(disk, []int{1, 2, 5}) || done != 2 {
		t.Errorf("after the restart: %v, %d done", disk, done)
	}
}

func TestEventsAreStableJSON(t *testing.T) {
	w := New(1)
	w.Log.Keep = true
	w.Run(19050 * time.Millisecond)
	e := w.Log.Add(Event{Who: "A", What: "write-refused", Token: 7, Fence: 12, Chunk: 2, Why: "a \"b\"\n\x01\xff ü"})
	const want = `{"n":1,"t":19.05,"who":"A","what":"write-refused","token":7,"fence":12,"chunk":2,"why":"a \"b\"\u000a\u0001` + "\ufffd" + ` ü"}`
	got := string(e.AppendJSON(nil))
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var back map[string]any
	if err := json.Unmarshal([]byte(got), &back); err != nil || back["why"] != "a \"b\"\n\x01\ufffd ü" {
		t.Errorf("%v: %v", err, back)
	}
	for d, want := range map[time.Duration]string{0: "0", 1: "0.000000001", -500 * time.Millisecond: "-0.5", 10 * time.Second: "10", 49_100_000_000: "49.1"} {
		if got := Seconds(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}
