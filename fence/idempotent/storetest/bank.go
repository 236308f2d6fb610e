package storetest

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Bank is a remote side for effects of processes that are killed: a file, which
// outlives them.
type Bank string

// Pay is a request: one line, with its key.
func (b Bank) Pay(key string) error {
	f, err := os.OpenFile(string(b), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, key)
	return errors.Join(err, f.Close())
}

// Asked gives the key of each request so far.
func (b Bank) Asked() ([]string, error) {
	text, err := os.ReadFile(string(b))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}
