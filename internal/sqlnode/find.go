package sqlnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// MissingError: a server's programs are not installed.
type MissingError struct {
	Server  string // PostgreSQL
	Program string // postgres
	Debian  string // the package that has it
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed here: there is no program %s. On Debian and Ubuntu it is in the package %s: sudo apt-get install %s",
		e.Server, e.Program, e.Debian, e.Debian)
}

// find looks on PATH, and then where Debian keeps servers.
func (k *Kind) find() (map[string]string, error) {
	found := map[string]string{}
	for _, p := range k.programs {
		path, err := k.lookPath(p)
		if err != nil {
			return nil, err
		}
		found[p] = path
	}
	return found, nil
}

func (k *Kind) lookPath(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return filepath.EvalSymlinks(path) // postgres finds its own files from there
	}
	for _, place := range k.places {
		all, err := filepath.Glob(filepath.Join(place, program))
		if err != nil {
			return "", err
		}
		for _, path := range slices.Backward(all) { // the newest last, and so first
			if _, err := exec.LookPath(path); err == nil {
				return path, nil
			}
		}
	}
	return "", &MissingError{Server: k.name, Program: program, Debian: k.debian}
}

// account is the user that a server runs as. The nil account is this process's.
type account struct{ uid, gid uint32 }

// pick finds the first of the users that this system has. Servers refuse to run
// as root.
func pick(names []string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &account{uint32(uid), uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("sqlnode: servers refuse to run as root, and there is none of the users %s", strings.Join(names, ", "))
}

// own gives a file, or a folder and all in it, to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(a.uid), int(a.gid))
	})
}

func (a *account) attributes() *syscall.SysProcAttr {
	s := &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent alone
	if a != nil {
		s.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return s
}

// run runs one of the server's programs to its end.
func (n *Node) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, n.programs[program], args...)
	cmd.SysProcAttr = n.account.attributes()
	cmd.Dir, cmd.Env = n.dir, environment()
	if said, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		return fmt.Errorf("sqlnode: %s: %w: %s", program, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// environment is this process's, without what would aim a server elsewhere, and
// with messages in English: they are read.
func environment() []string {
	all := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "MYSQL") || strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG")
	})
	return append(all, "LC_ALL=C")
}
