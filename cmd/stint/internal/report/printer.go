package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Printer writes stint's own lines, each of them marked, to standard error. It
// is safe for concurrent use.
type Printer struct {
	Quiet bool // only errors

	mu    sync.Mutex
	w     io.Writer
	width func() int // nil where no line can be redrawn
	live  bool       // a live line stands unfinished
}

// NewPrinter writes to f, with a live line if that is a terminal.
func NewPrinter(f *os.File) *Printer {
	p := &Printer{w: f}
	if fd := int(f.Fd()); term.IsTerminal(fd) && os.Getenv("TERM") != "dumb" {
		p.width = func() int {
			w, _, err := term.GetSize(fd)
			if err != nil || w <= 0 {
				return 80
			}
			return w
		}
	}
	return p
}

// Interactive tells whether there is a live line.
func (p *Printer) Interactive() bool { return p.width != nil }

// Line writes one line, unless Quiet.
func (p *Printer) Line(format string, a ...any) {
	if !p.Quiet {
		p.write(fmt.Sprintf(format, a...))
	}
}

// Live redraws the live line; Line and Done take it away.
func (p *Printer) Live(format string, a ...any) {
	if p.width == nil || p.Quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := cut("stint: "+Clean(fmt.Sprintf(format, a...)), p.width()-1)
	fmt.Fprint(p.w, "\r", text, clearRight)
	p.live = true
}

// Done takes the live line away.
func (p *Printer) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

// Error writes err: what happened, what it means for the data, what to do.
func (p *Printer) Error(err error) {
	lines := []string{strings.TrimPrefix(err.Error(), "stint: ")} // the mark comes anyway
	if pr, ok := errors.AsType[*Problem](err); ok {
		lines = append(lines, pr.Data, pr.Do)
	}
	for _, l := range lines {
		if l != "" {
			p.write(l)
		}
	}
}

const clearRight = "\x1b[K"

func (p *Printer) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("stint: " + Clean(strings.TrimRight(line, "\n")) + "\n")
	}
	_, _ = io.WriteString(p.w, b.String()) // one write, so that lines of several processes do not mix
}

func (p *Printer) wipe() {
	if p.live {
		fmt.Fprint(p.w, "\r", clearRight)
		p.live = false
	}
}

// Clean takes out what could move the cursor or hide text: a holder's name
// comes from another machine.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// cut shortens s to at most width characters.
func cut(s string, width int) string {
	r := []rune(s)
	if width < 4 || len(r) <= width {
		return s
	}
	return string(r[:width-3]) + "..."
}
