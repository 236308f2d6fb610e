package report

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Printer writes stint's own lines, each of them marked, to standard error. It
// is safe for concurrent use.
type Printer struct {
	Quiet bool // only errors
	JSON  bool // a line of JSON for each, as package slog writes it

	out   stream
	width func() int // nil where no line can be redrawn

	mu   sync.Mutex
	live bool // a live line stands unfinished
}

// linePatience is how long a line waits until its reader has taken it. A reader
// that stalls (a pager, a terminal that was stopped with Ctrl-S) must not hold up
// whoever guards a command.
const linePatience = 100 * time.Millisecond

// NewPrinter writes to f, with a live line if that is a terminal.
func NewPrinter(f *os.File) *Printer {
	p := &Printer{out: stream{w: f, patience: linePatience}}
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
func (p *Printer) Interactive() bool { return p.width != nil && !p.JSON }

// Line writes one line, unless Quiet. It returns when the line is written, or
// soon, if its reader stalls.
func (p *Printer) Line(format string, a ...any) {
	if !p.Quiet {
		p.out.wait(p.line(fmt.Sprintf(format, a...)))
	}
}

// Soon is Line for those who must not wait at all.
func (p *Printer) Soon(format string, a ...any) {
	if !p.Quiet {
		p.line(fmt.Sprintf(format, a...))
	}
}

// Live redraws the live line; Line and Done take it away.
func (p *Printer) Live(format string, a ...any) {
	if p.width == nil || p.Quiet || p.JSON {
		return
	}
	text := cut("stint: "+Clean(fmt.Sprintf(format, a...)), p.width()-1)
	p.mu.Lock()
	p.live = true
	written := p.out.send("\r" + text + clearRight)
	p.mu.Unlock()
	p.out.wait(written)
}

// Done takes the live line away.
func (p *Printer) Done() {
	p.mu.Lock()
	written := p.out.send(p.wipe())
	p.mu.Unlock()
	p.out.wait(written)
}

// Error writes err: what happened, what it means for the data, what to do. It
// comes at the end, and returns only when it is written.
func (p *Printer) Error(err error) {
	if p.JSON {
		<-p.out.send("")
		<-p.out.send(jsonError(err))
		return
	}
	lines := []string{strings.TrimPrefix(err.Error(), "stint: ")} // the mark comes anyway
	if pr, ok := errors.AsType[*Problem](err); ok {
		lines = append(lines, pr.Data, pr.Do)
	}
	<-p.out.send("") // what is pending first: it might leave no room
	for _, l := range lines {
		if l != "" {
			<-p.line(l)
		}
	}
}

const clearRight = "\x1b[K"

// line sends a text of one or more lines.
func (p *Printer) line(text string) (written <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.JSON {
		return p.out.send(jsonLine(text))
	}
	var b strings.Builder
	b.WriteString(p.wipe())
	for line := range strings.Lines(text) {
		b.WriteString("stint: " + Clean(strings.TrimRight(line, "\n")) + "\n")
	}
	return p.out.send(b.String()) // as one, so that lines of several processes do not mix
}

// wipe is what takes the live line away. Called with mu held.
func (p *Printer) wipe() string {
	if !p.live {
		return ""
	}
	p.live = false
	return "\r" + clearRight
}

// Clean takes out what could move the cursor or hide text: a holder's name
// comes from another machine.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' { // of a driver that lists the addresses it has tried
			return ' '
		}
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
