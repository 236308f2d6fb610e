package settings

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestAWholeNumberIsRefusedWithItsRange(t *testing.T) {
	n := uint64(7)
	w := Whole{N: &n, From: 1}
	for _, bad := range []string{"", "-1", "0", "1.5", "ten", "18446744073709551616"} {
		if err := w.Set(bad); err == nil || !strings.Contains(err.Error(), "not a whole number from 1 to 18446744073709551615") || n != 7 {
			t.Errorf("%q: %v, and it is %d", bad, err, n)
		}
	}
	if err := w.Set("18446744073709551615"); err != nil || w.String() != "18446744073709551615" {
		t.Errorf("%v, %s", err, w)
	}
}

func TestANumberBelowZeroIsNotCalledNoNumber(t *testing.T) {
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Uint64("bump", 0, "")
	if got := FlagError(f.Parse([]string{"--bump=-1"})); got != `--bump: "-1" is below zero` {
		t.Error(got)
	}
}
