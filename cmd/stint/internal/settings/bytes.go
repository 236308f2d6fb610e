package settings

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is a flag that wants a unit: 512MiB, 2GiB.
type Bytes int64

// units, the longest first.
var units = []struct {
	name string
	size Bytes
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

func (b *Bytes) String() string {
	if *b == 0 {
		return ""
	}
	return fmt.Sprintf("%dMiB", *b>>20)
}

// Type is what help shows.
func (b *Bytes) Type() string { return "size" }

// Set parses s.
func (b *Bytes) Set(s string) error {
	for _, u := range units {
		if text, ok := strings.CutSuffix(s, u.name); ok {
			n, err := strconv.ParseInt(text, 10, 32)
			if err != nil || n < 1 {
				break
			}
			*b = Bytes(n) * u.size
			return nil
		}
	}
	return fmt.Errorf("%q is not a size: write something like 512MiB or 2GiB", s)
}
