package settings

import (
	"path/filepath"
	"runtime"
	"testing"
)

func TestTheDefaultFileOfRootIsTheSystems(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", "/home/joe/state") // as sudo -E leaves it
	t.Setenv("HOME", "/home/joe")
	if got, err := defaultFile(true); err != nil || got != "/var/lib/stint/leases.db" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestTheDefaultFileOfAUserIsInTheUsersStateFolder(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("HOME", "/home/joe")
	inHome := "/home/joe/.local/state/stint/leases.db"
	if runtime.GOOS == "darwin" {
		inHome = "/home/joe/Library/Application Support/stint/leases.db"
	}
	for state, want := range map[string]string{
		"/home/joe/state": "/home/joe/state/stint/leases.db",
		"":                inHome,
		"relative":        inHome, // by the XDG rules it does not count
	} {
		t.Setenv("XDG_STATE_HOME", state)
		if got, err := defaultFile(false); err != nil || got != want {
			t.Errorf("XDG_STATE_HOME=%s: %s, %v; want %s", state, got, err, want)
		}
	}
	t.Setenv("XDG_STATE_HOME", "")
	for _, home := range []string{"", "relative"} {
		t.Setenv("HOME", home)
		if got, err := defaultFile(false); err == nil {
			t.Errorf("HOME=%s gave %s (absolute: %v)", home, got, filepath.IsAbs(got))
		}
	}
}

func TestAServicesStateFolderGoesBeforeRootsAndTheUsers(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/var/lib/billing")
	t.Setenv("XDG_STATE_HOME", "/home/joe/state")
	for _, root := range []bool{true, false} {
		if got, err := defaultFile(root); err != nil || got != "/var/lib/billing/leases.db" {
			t.Errorf("root %v: %s, %v", root, got, err)
		}
	}
}
