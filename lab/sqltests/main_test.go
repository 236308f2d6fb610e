package sqltests

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/stint-dev/stint/lab/sqlservers"
)

// long asks for as many trials as a promise is stated for; see `make lab`.
var long = flag.Bool("long", false, "more trials: many minutes more")

// trials is how many a test makes.
func trials(short, full int) int {
	if *long {
		return full
	}
	return short
}

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		child(task)
		return
	}
	flag.Parse()
	// Most of a test here is waiting for a server.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.checks" })
	if !set { // each check runs a program on seven databases
		if err := flag.Set("rapid.checks", fmt.Sprint(trials(8, 150))); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(sqlservers.Closing(m))
}
