package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/stint-dev/stint"
	"github.com/stint-dev/stint/authority"
)

// environment is what the command is told.
func (s *session) environment(lease *stint.Lease, socket string, dog *watchdog) []string {
	// The manager of stint itself hears stint only.
	env := setEnv(os.Environ(), "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
	return append(setEnv(env,
		"STINT_OUTER="+strings.Join(append(surrounding(), lease.Grant().String()), " "),
		"STINT_NAME="+s.name,
		fmt.Sprintf("STINT_TOKEN=%d", lease.Token()),
		"STINT_GRANT="+lease.Grant().String(),
		"STINT_SOCKET="+socket), dog.environment()...)
}

// surrounding are the grants of the stint runs that this one is inside of. What
// one of them holds is not free before this one has ended.
func surrounding() []string { return strings.Fields(os.Getenv("STINT_OUTER")) }

// insideOf reports whether s is held by a run that this one is inside of.
func insideOf(s authority.State) bool {
	return s.Held && slices.Contains(surrounding(), s.Grant.String())
}

// setEnv replaces variables: the last of two equal names does not win everywhere.
// One without a value is taken out.
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
	for _, v := range set {
		if strings.Contains(v, "=") {
			out = append(out, v)
		}
	}
	return out
}

func varName(v string) string {
	name, _, _ := strings.Cut(v, "=")
	return name
}
