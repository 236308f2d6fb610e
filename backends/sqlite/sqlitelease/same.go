package sqlitelease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stint-dev/stint/authority"
)

// brokenError says that this authority cannot work as it is: trying again does
// not help. Nothing was changed.
type brokenError struct{ error }

func broken(err error) error { return brokenError{err} }

func (e brokenError) Unwrap() error        { return e.error }
func (e brokenError) Is(target error) bool { return target == authority.ErrBroken }

// oneName refuses a file that other processes may use by another name: each
// name has a -wal, a -shm and a mark of its own, and would grant the same lease
// with the same token.
func oneName(ctx context.Context, path string) error {
	mounted, err := isMount(path)
	if err != nil {
		return fmt.Errorf("sqlitelease: %w", err)
	}
	if mounted {
		return broken(fmt.Errorf("sqlitelease: %s is mounted by itself, without the files beside it, so those who use it by its other name would not be seen, and two could hold one lease. "+
			"Nothing was changed; mount the folder, not the file", path))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second/4)
	defer cancel()
	for ; ; nap() {
		_, names, err := inodeAndNames(path)
		if err != nil {
			return fmt.Errorf("sqlitelease: %w", err)
		}
		if names <= 1 {
			return nil
		}
		// Where a file cannot be renamed safely, creation links it: wait for that.
		if ctx.Err() != nil {
			return linked(path, names)
		}
	}
}

func linked(path string, names uint64) error {
	return broken(fmt.Errorf("sqlitelease: %s has %d names (hard links): those who use it by another one would not be seen, and two could hold one lease. "+
		"Nothing was changed; make sure that nobody uses the other names, and remove them: find FOLDER -samefile %s", path, names, path))
}

// usable makes sure, inside a transaction, that this still is the file that it
// was when it was opened.
func (a *Authority) usable(c *conn) error {
	if err := a.sameFile(); err != nil {
		return err
	}
	version, _, err := c.number(`PRAGMA user_version`)
	if err == nil && version != schemaVersion {
		err = newer(a.path, version)
	}
	return err
}

// sameFile makes sure that the file which is open still is the one that others
// find, by one name: after a rename or a restore there would be two.
func (a *Authority) sameFile() error {
	now, names, err := inodeAndNames(a.path)
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && now != a.inode:
		return a.replaced()
	case err != nil:
		return fmt.Errorf("sqlitelease: %w", err)
	case names > 1:
		return linked(a.path, names)
	}
	sides, err := sidesOf(a.path)
	if err == nil && sides != a.sides || errors.Is(err, os.ErrNotExist) {
		return a.replaced()
	}
	if err != nil {
		return fmt.Errorf("sqlitelease: %w", err)
	}
	return nil
}

// sidesOf tells where -wal and -shm are. SQLite keeps them while a connection is
// open; who opens the file after somebody has deleted them makes others.
func sidesOf(path string) (sides [2]inode, err error) {
	for i, suffix := range []string{"-wal", "-shm"} {
		if sides[i], err = inodeOf(path + suffix); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

func (a *Authority) replaced() error {
	return broken(fmt.Errorf("sqlitelease: %s, or its -wal or -shm, was removed or replaced while it was in use: nothing was done, as other processes may by now use another file. Restart this process", a.path))
}
