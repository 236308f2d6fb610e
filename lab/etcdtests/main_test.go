package etcdtests

import (
	"flag"
	"testing"

	"github.com/stint-dev/stint/lab/etcdcluster"
	"go.uber.org/goleak"
)

// long asks for as many trials as a promise is stated for; see `make lab`.
var long = flag.Bool("long", false, "more trials: minutes more")

func TestMain(m *testing.M) {
	etcdcluster.Main()
	holdUntilKilled()
	flag.Parse()
	// Parallel tests here wait for leases to run out, and not for a processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
