package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/stint-dev/stint/authority"
)

// Lease is a name's state in a listing. Its JSON is stable: fields are added,
// not renamed.
type Lease struct {
	Name    string  `json:"name"`
	Held    bool    `json:"held"`
	Token   int64   `json:"token"`            // of the living grant, else of the last one; 0: never held, or not remembered
	Grant   string  `json:"grant,omitempty"`  // token.nonce
	Holder  string  `json:"holder,omitempty"` //
	Since   string  `json:"since,omitempty"`  // RFC 3339, by the authority's wall clock; only while it is held
	TTL     float64 `json:"ttl_seconds"`      // the lease length
	Left    float64 `json:"left_seconds"`     // until the authority lets go; 0 when free
	Waiters int     `json:"waiters"`          // in line
}

// FromState translates an authority's answer.
func FromState(s authority.State) Lease {
	l := Lease{Name: s.Name, Held: s.Held, Token: int64(s.Grant.Token), Holder: s.Holder,
		TTL: s.Length.Seconds(), Waiters: s.Waiters}
	if !s.Grant.IsZero() {
		l.Grant = s.Grant.String()
	}
	if !s.Held {
		return l // since when the last holder held it would read as since when it is free
	}
	l.Left = max(s.Left, 0).Seconds()
	if !s.Since.IsZero() {
		l.Since = s.Since.Format(time.RFC3339)
	}
	return l
}

// JSON writes one indented document.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Table writes leases for people.
func Table(w io.Writer, states []authority.State) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tTOKEN\tHOLDER\tSINCE\tLEFT\tWAITING")
	for _, s := range states {
		holder, since, left := "(free)", "-", "-"
		if s.Held {
			holder, since, left = orDash(Clean(s.Holder)), Since(s.Since, time.Now()), Short(s.Left)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%d\n", Name(s.Name), s.Grant.Token, holder, since, left, s.Waiters)
	}
	return t.Flush()
}

// Details writes one lease for people. An authority remembers who held a name
// that is free, or does not.
func Details(w io.Writer, s authority.State, remembers bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(k, v string) { fmt.Fprintf(t, "%s\t%s\n", k, v) }
	row("name", Name(s.Name))
	switch {
	case s.Held:
		row("state", "held")
		row("holder", orDash(Clean(s.Holder)))
		row("token", strconv.FormatInt(int64(s.Grant.Token), 10))
		row("grant", s.Grant.String())
		row("since", Since(s.Since, time.Now()))
		row("left", Short(s.Left)+" unless it is renewed (of "+s.Length.String()+")")
	case s.Grant.IsZero() && remembers:
		row("state", "free, never held")
	case s.Grant.IsZero():
		row("state", "free")
	default:
		row("state", "free")
		row("last token", strconv.FormatInt(int64(s.Grant.Token), 10))
		row("last holder", orDash(Clean(s.Holder)))
	}
	row("waiting", strconv.Itoa(s.Waiters))
	return t.Flush()
}

// Name is a name as it is, quoted where it could be misread: a space at the
// end, a character that does not show.
func Name(name string) string {
	odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' }
	if strings.ContainsFunc(name, odd) {
		return strconv.Quote(name)
	}
	return name
}

// Short rounds a duration to what a person reads.
func Short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

// Since is a time of day, with the date when that is another.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	t = t.Local()
	if y, m, d := now.Local().Date(); t.Year() == y && t.Month() == m && t.Day() == d {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
