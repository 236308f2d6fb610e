//go:build !linux

package clock

import "github.com/stint-dev/stint/authority"

func newBootAlarm(c authority.Clock) (Alarm, error) { return newTimerAlarm(c), nil }
