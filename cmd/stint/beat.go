package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/cmd/stint/internal/notify"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
)

const beatLong = `Run inside the command of "stint run --watchdog": gives one sign of life, so that
the lease goes on being renewed. It sends WATCHDOG=1 to NOTIFY_SOCKET, as
systemd-notify does, and works under systemd as well (NotifyAccess=all). It ends
when the sign has been read, or after two seconds.

With --extend the next sign is expected within that time, for a step that takes
longer than --watchdog: at most 24h. The sign after it ends the extension.`

func beatCommand() *cobra.Command {
	var extend time.Duration
	c := &cobra.Command{
		Use:   "beat",
		Short: "Give a sign of life, inside the command of stint run --watchdog",
		Long:  beatLong,
		Example: `  for f in *.csv; do
    load "$f" && stint beat || exit 1
  done`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error { return beat(extend) },
	}
	c.Flags().Var(settings.Duration{D: &extend}, "extend", "expect the next sign within this time in place of --watchdog")
	return c
}

func beat(extend time.Duration) error {
	state := "WATCHDOG=1"
	if extend > 0 {
		state += fmt.Sprintf("\nEXTEND_TIMEOUT_USEC=%d", extend.Microseconds())
	}
	err := notify.Deliver(state)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, notify.ErrNobody):
		return &report.Problem{Code: report.ExitUsage, Err: err,
			Data: "nobody waits for a sign of life here", Do: "start it as: stint run NAME --watchdog 5s -- CMD"}
	}
	return &report.Problem{Code: report.ExitService, What: "the sign of life did not get through", Err: err,
		Data: "if none does, the command is ended, since it is taken for stuck",
		Do:   "run as the user that runs stint; only that user and root reach NOTIFY_SOCKET"}
}
