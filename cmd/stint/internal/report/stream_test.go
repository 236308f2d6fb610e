package report

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAStalledReaderHoldsUpNobody(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := NewPrinter(w)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		for range 5000 { // far more than a pipe and the stream keep
			p.Line("%s", strings.Repeat("x", 100))
			p.Soon("%s", strings.Repeat("y", 100))
		}
		p.Done()
	}()
	select {
	case <-returned:
	case <-time.After(20 * time.Second):
		t.Fatal("a line waits for a reader that does not read")
	}
	read := make(chan []byte)
	go func() {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r)
		read <- b.Bytes()
	}()
	p.Error(&Problem{What: "the end"})
	w.Close()
	if got := <-read; !bytes.HasSuffix(got, []byte("\nstint: the end\n")) {
		t.Errorf("the error did not come last; of %d bytes the end is %q", len(got), got[max(0, len(got)-100):])
	}
}

func TestLinesKeepTheirOrder(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{out: stream{w: &b}}
	for range 100 {
		p.Soon("one")
		p.Line("two")
	}
	if want := strings.Repeat("stint: one\nstint: two\n", 100); b.String() != want {
		t.Errorf("%d bytes, want %d in their order", b.Len(), len(want))
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				p.Line("three")
			}
		})
	}
	all.Wait()
	if n := strings.Count(b.String(), "stint: three\n"); n != 800 {
		t.Errorf("%d of 800 lines", n)
	}
}
