package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stint-dev/stint/cmd/stint/internal/sqlurl"
	"github.com/stint-dev/stint/internal/sqlnode"
)

// A private server of each kind is started for the demo and ends with it.
func TestDemoOnAPrivateServerBillsEveryoneOnce(t *testing.T) {
	t.Parallel()
	for name, kind := range demoServers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := steady(t, func() *demo { return startDemoAt(t, "5", "--store", name) })
			d.ends(t, 0)
			d.says(t, kind.String()+", a private server at 127.0.0.1:", "sends chunk 2: REFUSED", "50,000 charged once, 0 twice, 0 never")
		})
	}
}

// Not even kill -9 of the demo leaves its server behind.
func TestDemoKilledLeavesNoServer(t *testing.T) {
	t.Parallel()
	d := startDemoAt(t, "5", "--store", "mariadb")
	if !d.until("bills chunk 1") {
		t.Fatal("nothing was billed")
	}
	d.killed(t, 30*time.Second)
}

// In a database of the user's the demo has tables of its own, and drops them.
func TestDemoInAUsersDatabaseLeavesNothingThere(t *testing.T) {
	t.Parallel()
	for _, kind := range demoServers {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n, err := sqlnode.Start(ctx, kind, sqlnode.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			d := steady(t, func() *demo {
				d := startDemoAt(t, "5", "--store", n.URL(n.Database()))
				if !d.until("bills chunk 1") {
					t.Fatal("nothing was billed")
				}
				if args, err := exec.Command("ps", "-A", "-ww", "-o", "args=").Output(); err != nil || workersTell(string(args), n.Password()) {
					t.Errorf("a worker's arguments tell the password (%v)", err)
				}
				return d
			})
			d.ends(t, 0)
			d.says(t, "50,000 charged once, 0 twice, 0 never", "tables stint_demo_")
			if strings.Contains(strings.Join(d.lines, "\n"), n.Password()) {
				t.Error("the password is told")
			}
			db, _, err := sqlurl.Open(n.URL(n.Database()))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, of := range []string{"table", "routine"} {
				var left int
				query := fmt.Sprintf("SELECT count(*) FROM information_schema.%[1]ss WHERE %[1]s_name LIKE 'stint%%'", of)
				if err := db.QueryRow(query).Scan(&left); err != nil || left > 0 {
					t.Errorf("%d %ss are left (%v)", left, of, err)
				}
			}
		})
	}
}

// workersTell looks for a password in the workers' arguments. The demo's own
// have it: the user gave it so.
func workersTell(args, password string) bool {
	for line := range strings.Lines(args) {
		if strings.Contains(line, "billing-worker") && strings.Contains(line, password) {
			return true
		}
	}
	return false
}

func TestDemoRefusesOtherStores(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		"oracle":                         "sqlite, postgres, mariadb, or the URL",
		"oracle://a:secret@localhost/db": "postgres:// or mysql://",
		"postgres://a:secret@localhost":  "it names no database",
	} {
		f := demoFlags{authority: "sqlite", store: store}
		if err := f.complete(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("--store %s: %v", store, err)
		}
	}
}
