package settings

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const fileName = "leases.db"

// DefaultFile is where the authority lies when none is named: the service's
// state folder, the system's for root, else the user's.
func DefaultFile() (string, error) { return defaultFile(os.Geteuid() == 0) }

func defaultFile(root bool) (string, error) {
	// systemd separates several with colons; the first is the unit's own.
	if dirs := os.Getenv("STATE_DIRECTORY"); dirs != "" {
		if dir, _, _ := strings.Cut(dirs, ":"); filepath.IsAbs(dir) {
			return filepath.Join(dir, fileName), nil
		}
	}
	if root {
		return filepath.Join("/var/lib/stint", fileName), nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "stint", fileName), nil
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return "", errors.New("there is no home folder (HOME is not set) to keep the default file in")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "stint", fileName), nil
	}
	return filepath.Join(home, ".local", "state", "stint", fileName), nil
}

// FileURL is the authority URL of a file.
func FileURL(path string) string {
	return (&url.URL{Scheme: "sqlite", Path: path}).String()
}
