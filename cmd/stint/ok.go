package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-dev/stint/cmd/stint/internal/oksocket"
	"github.com/stint-dev/stint/cmd/stint/internal/report"
)

const okLong = `Run inside the command of "stint run": exit code 0 while the lease is held and
inside its stop time, 76 when it is not, or when stint does not answer.

It asks the stint that runs the command, over STINT_SOCKET. The answer is
counted from before the question, by this host's boot clock; so a stint that is
frozen is a no after a second, and an answer never says yes for longer than it
is true.

It is a check before a step, not a guard of the step: the process may be paused
right after it. What a late write may destroy needs a fence (stint run --fence).`

// okPatience is how long a stint that is well may take on a busy machine.
const okPatience = time.Second

func okCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "ok",
		Short: "Ask, inside the command of stint run, whether the lease still holds",
		Long:  okLong,
		Example: `  for f in *.csv; do
    stint ok || exit 1
    load "$f"
  done`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return ok(asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the lease's name, token and time left as JSON")
	return c
}

// okAnswer is the JSON of stint ok.
type okAnswer struct {
	OK    bool    `json:"ok"`
	Name  string  `json:"name,omitempty"`
	Token int64   `json:"token,omitempty"`
	Grant string  `json:"grant,omitempty"`
	Left  float64 `json:"left_seconds"` // until the stop time
	Why   string  `json:"why,omitempty"`
}

func ok(asJSON bool) error {
	socket := os.Getenv("STINT_SOCKET")
	if socket == "" {
		return &report.Problem{Code: report.ExitUsage, What: "STINT_SOCKET is not set",
			Data: "this is not the command of a stint run, so no lease is held here", Do: "start it as: stint run NAME -- CMD"}
	}
	a, err := oksocket.Ask(socket, okPatience)
	if err != nil {
		a = oksocket.Answer{Why: "the stint that runs this command does not answer: " + err.Error()}
	}
	// An inherited socket with another's variables: the answer is about a lease
	// that this command does not go by.
	if g := os.Getenv("STINT_GRANT"); err == nil && g != "" && g != a.Grant {
		a = oksocket.Answer{Name: a.Name, Why: fmt.Sprintf("STINT_GRANT is %s, but stint holds %s", g, a.Grant)}
	}
	good := err == nil && a.Left > 0
	if asJSON {
		if err := report.JSON(os.Stdout, okAnswer{good, a.Name, a.Token, a.Grant, max(a.Left, 0).Seconds(), a.Why}); err != nil {
			return err
		}
	}
	if good {
		return nil
	}
	return &report.Problem{Code: report.ExitLost, What: "the lease does not hold any more: " + a.Why,
		Data: "another may be working by now", Do: "stop, and write nothing more"}
}
