package protocol

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts into testdata")

// tape records what machines hear and do, as lines for a person. A nil tape
// records nothing.
type tape struct{ b strings.Builder }

func (t *tape) record(now Instant, who string, ev Event, out []Effect) {
	if t == nil {
		return
	}
	fmt.Fprintf(&t.b, "%v %s < %s\n", now, who, heard(ev))
	for _, e := range out {
		fmt.Fprintf(&t.b, "    > %v\n", e)
	}
}

func heard(ev Event) string {
	switch ev := ev.(type) {
	case Answer:
		s := fmt.Sprintf("%v #%d", ev.Op, ev.Try)
		switch {
		case ev.Err != nil:
			return s + ": " + ev.Err.Error()
		case ev.Op == OpList:
			var places []string
			for _, p := range ev.List.Keys {
				places = append(places, fmt.Sprintf("%s %d", p.Key, p.Token))
			}
			return fmt.Sprintf("%s: %s; floor %d", s, strings.Join(places, ", "), ev.List.Floor)
		}
		if ev.Grant.IsZero() {
			return s + ": ok"
		}
		return s + ": " + ev.Grant.Grant.String()
	case Loaded:
		switch {
		case ev.Err != nil:
			return fmt.Sprintf("loaded #%d: %v", ev.Try, ev.Err)
		case ev.Version == "":
			return fmt.Sprintf("loaded #%d: nothing", ev.Try)
		}
		return fmt.Sprintf("loaded #%d: %s, %v by %q, written as %s", ev.Try, ev.Version, ev.Record.Grant, ev.Record.Holder, ev.Record.Write)
	case Swapped:
		if ev.Err != nil {
			return fmt.Sprintf("swapped #%d: %v", ev.Try, ev.Err)
		}
		return fmt.Sprintf("swapped #%d: %s", ev.Try, ev.Version)
	case Scanned:
		return fmt.Sprintf("scanned #%d: %d rows", ev.Try, len(ev.Rows))
	case Inspected:
		switch {
		case ev.Err != nil:
			return fmt.Sprintf("looked #%d %q: %v", ev.Try, ev.Name, ev.Err)
		case ev.State.Held:
			return fmt.Sprintf("looked #%d %q: held by %v", ev.Try, ev.Name, ev.State.Grant)
		}
		return fmt.Sprintf("looked #%d %q: free", ev.Try, ev.Name)
	case Lent:
		return fmt.Sprintf("lent by %d: %v", ev.Master, ev.Yes)
	case Fetched:
		return fmt.Sprintf("fetched #%d: %v", ev.Try, ev.Receipt)
	case Noted:
		return fmt.Sprintf("noted #%d: %s", ev.Try, outcome(ev.Err))
	case Called:
		return fmt.Sprintf("called #%d: %s", ev.Try, outcome(ev.Err))
	case Ask:
		return fmt.Sprintf("ask #%d %v %q", ev.ID, ev.Op, ev.Name)
	case Applied:
		return fmt.Sprintf("applied in term %d: %v", ev.Term, ev.Command)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", ev), "protocol."))
}

func outcome(err error) string {
	if err != nil {
		return err.Error()
	}
	return "ok"
}

// holds compares the tape with its file.
func (t *tape) holds(tt *testing.T, name string) {
	tt.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(t.b.String()), 0o644); err != nil {
			tt.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tt.Fatal(err)
	}
	if got := t.b.String(); got != string(want) {
		tt.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// TestTranscripts holds what the machines do, line by line. Review a rewrite
// (-rewrite) as a diff.
func TestTranscripts(t *testing.T) {
	for name, play := range map[string]func(*testing.T, *tape){
		"observer_lost_answers": tapeLostAnswers,
		"observer_claims":       tapeClaim,
		"candidate_line":        tapeLine,
		"candidate_floor":       tapeFloor,
		"sweeper_orphan":        tapeOrphan,
		"lessor_checkpoint":     tapeCheckpoint,
		"payer_pending":         tapePayer,
		"sharer_lost_create":    tapeSharer,
		"quorum_clock":          tapeQuorum,
	} {
		tape := &tape{}
		play(t, tape)
		tape.holds(t, name)
	}
}

func tapeLostAnswers(t *testing.T, tape *tape) {
	r := &register{t: t, tape: tape}
	a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
	a.lose = 1
	a.step(Start{})
	r.to(sec)
	a.lose = 1
	r.to(4 * sec)
	a.lose = 1
	a.step(Release{})
	r.to(10 * sec)
}

func tapeClaim(t *testing.T, tape *tape) {
	r := &register{t: t, tape: tape}
	a := r.user(ObserverConfig{Config: Config{Prefix: "a"}})
	a.step(Start{})
	d := r.user(ObserverConfig{Poll: 4 * sec, Config: Config{Prefix: "d"}})
	r.to(ms(500))
	d.step(Start{})
	r.to(4 * sec)
	a.paused = true
	r.to(ms(15500))
	a.paused = false
	r.to(16 * sec)
	a.step(Release{})
}

func tapeLine(t *testing.T, tape *tape) {
	p := newPolls(t, LessorConfig{})
	p.paper = tape
	p.voter("a", 0)
	b := p.voter("b", 0)
	p.run(2 * sec)
	p.voters[0].step(Release{})
	p.tell()
	b.step(Release{})
}

func tapeFloor(t *testing.T, tape *tape) {
	p := newPolls(t, LessorConfig{})
	p.paper = tape
	a, heir := p.voter("a", 0), p.voter("c", 0)
	b := p.voter("b", 0)
	a.step(Pass{Key: "e/b"})
	b.step(Woken{})
	p.tell()
	b.step(Release{})
	p.tell()
	heir.step(Release{})
}

func tapeOrphan(t *testing.T, tape *tape) {
	w := newSweeps(t, SweeperConfig{}, orphan("job", 12))
	w.tape = tape
	w.step(Start{})
	w.to(30 * sec)
}

func tapeCheckpoint(t *testing.T, tape *tape) {
	s := newService(t, LessorConfig{Checkpoint: 3 * sec})
	s.tape = tape
	a := s.acquire("job", "a-1").Grant
	s.to(ms(3500))
	s.renew(a)
	s.to(4 * sec)
	s.promote()
	s.to(15 * sec)
}
