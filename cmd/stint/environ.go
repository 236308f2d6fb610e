package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/stint-dev/stint"
)

// environment is what the command is told.
func (s *session) environment(lease *stint.Lease, socket string) []string {
	return setEnv(os.Environ(),
		"STINT_NAME="+s.name,
		fmt.Sprintf("STINT_TOKEN=%d", lease.Token()),
		"STINT_GRANT="+lease.Grant().String(),
		"STINT_SOCKET="+socket)
}

// setEnv replaces variables: the last of two equal names does not win everywhere.
func setEnv(env []string, set ...string) []string {
	names := map[string]bool{}
	for _, v := range set {
		names[varName(v)] = true
	}
	var out []string
	for _, v := range env {
		if !names[varName(v)] {
			out = append(out, v)
		}
	}
	return append(out, set...)
}

func varName(v string) string {
	name, _, _ := strings.Cut(v, "=")
	return name
}
