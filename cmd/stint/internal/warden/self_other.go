//go:build unix && !linux

package warden

import "os"

func self() (string, error) { return os.Executable() }
