package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func TestEveryMessageIsOneObjectOfJSON(t *testing.T) {
	var b bytes.Buffer
	p := &Printer{JSON: true, out: stream{w: &b}, width: func() int { return 80 }}
	p.Live("waiting")
	p.Line("held by %s", "two\nlines and an \x1b escape")
	p.Soon("soon")
	p.Error(&Problem{Code: ExitLost, What: "it broke", Err: errors.New("cause"), Data: "nothing was lost", Do: "try again"})
	p.Error(errors.New("stint: plain"))
	p.Done()
	var got []map[string]any
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := time.Parse(time.RFC3339, m["time"].(string)); err != nil || m["pid"] != float64(os.Getpid()) {
			t.Errorf("%q: %v", line, err)
		}
		delete(m, "time")
		delete(m, "pid")
		got = append(got, m)
	}
	want := []map[string]any{
		{"level": "INFO", "msg": "held by two\nlines and an \x1b escape"},
		{"level": "INFO", "msg": "soon"},
		{"level": "ERROR", "msg": "it broke: cause", "data": "nothing was lost", "do": "try again", "exit_code": 76.0},
		{"level": "ERROR", "msg": "plain", "exit_code": 64.0},
	}
	if len(got) != len(want) {
		t.Fatalf("%d objects; want %d:\n%s", len(got), len(want), b.String())
	}
	for i := range want {
		if g, w := toJSON(t, got[i]), toJSON(t, want[i]); g != w {
			t.Errorf("%s; want %s", g, w)
		}
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("an escape came through")
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
