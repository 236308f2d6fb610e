package supervise

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// LookPath finds a command as a shell does. A *StartError tells "not found"
// from "not executable".
func LookPath(command string) (string, error) {
	path, err := exec.LookPath(command)
	if err == nil {
		return path, nil
	}
	e := &StartError{Command: command, Code: CodeNotFound, Err: err}
	if errors.Is(err, exec.ErrDot) {
		return "", e // never what happens to lie in the working directory
	}
	if strings.ContainsRune(command, '/') {
		if info, statErr := os.Stat(command); statErr == nil && info.IsDir() {
			e.Code, e.Err = CodeNotExecutable, errors.New("it is a directory")
			return "", e
		}
		if errors.Is(err, fs.ErrPermission) {
			e.Code, e.Err = CodeNotExecutable, fs.ErrPermission
		}
		return "", e
	}
	if lies := liesUnexecutable(command); lies != "" {
		e.Code, e.Err = CodeNotExecutable, errors.New(lies+": permission denied")
	}
	return "", e
}

// liesUnexecutable finds a file of that name on the PATH which may not be run.
func liesUnexecutable(command string) string {
	for _, dir := range strings.Split(os.Getenv("PATH"), ":") {
		if dir == "" || command == "" {
			continue
		}
		file := dir + "/" + command
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}
