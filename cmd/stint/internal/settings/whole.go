package settings

import (
	"fmt"
	"math"
	"strconv"
)

// Whole is a flag that wants a whole number that is not below From.
type Whole struct {
	N    *uint64
	From uint64
}

func (w Whole) String() string {
	if w.N == nil {
		return "0"
	}
	return strconv.FormatUint(*w.N, 10)
}

// Type is the name of the type; help shows uint.
func (w Whole) Type() string { return "uint64" }

// Set parses s.
func (w Whole) Set(s string) error {
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil || n < w.From {
		return fmt.Errorf("%q is not a whole number from %d to %d", s, w.From, uint64(math.MaxUint64))
	}
	*w.N = n
	return nil
}
