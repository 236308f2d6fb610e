package sqltests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/fence"
)

// This binary started again with taskEnv set is another process that does one
// task; its order is in orderEnv.
const (
	taskEnv  = "SQLTESTS_TASK"
	orderEnv = "SQLTESTS_ORDER"
)

// order is what a worker process is told.
type order struct {
	Place place
	Steps steps // where it is killed or stopped by its own hand
	Copy  bool  // write by COPY, with pgx
}

func child(string) {
	var o order
	err := json.Unmarshal([]byte(os.Getenv(orderEnv)), &o)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = o.work(ctx, grant(7, "a"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work is what every worker does, the successor too. A worker that is refused
// has nothing left to do.
func (o order) work(ctx context.Context, g fence.Grant) error {
	w, err := o.worker(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	err = w.finishWork(ctx, g)
	if o.Steps.At > 0 {
		return nil // it was stopped, and then cut off or refused: the data tells
	}
	return err
}

// command is this binary, to be started as another process.
func (o order) command(t testing.TB) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), taskEnv+"=work", orderEnv+"="+string(text),
		"GORACE="+strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")) // else a second at every exit under -race
	cmd.Stderr = os.Stderr
	return cmd
}
