//go:build !linux

package sqlitelease

import (
	"os"
	"testing"
)

func readOnly(t *testing.T, path string) {
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
}
