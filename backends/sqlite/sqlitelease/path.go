package sqlitelease

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/stint-dev/stint/authority"
)

// pathOf reads sqlite:///abs/path. It is strict: what SQLite would take as an
// option, or a browser as a host, is not silently dropped.
func pathOf(u *url.URL) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("sqlitelease: %w: %s: %s; write sqlite:///var/lib/stint/leases.db, with an absolute path after the two slashes",
			authority.ErrInvalid, authority.Redact(u.String()), why)
	}
	switch {
	case u.Opaque != "" || u.Host != "" || strings.HasPrefix(u.Path, "./"):
		return bad("the path is relative, and would be another file in every working directory")
	case u.User != nil:
		return bad("a file has no user and password")
	case u.RawQuery != "" || u.ForceQuery:
		return bad("there are no query parameters (a '?' in the path is written %3F)")
	case u.Fragment != "":
		return bad("there is no fragment (a '#' in the path is written %23)")
	case u.Path == "" || strings.HasSuffix(u.Path, "/"):
		return bad("it names no file")
	}
	return u.Path, nil
}

// urlOf is what pathOf reads as path.
func urlOf(path string) string { return (&url.URL{Scheme: "sqlite", Path: path}).String() }

const (
	applicationID = 0x53544e54 // "STNT"
	schemaVersion = 1
)

// What to do when there is no file.
type missing int

const (
	makeNew missing = iota // make it, if there never was one
	refuse
	remake // make it only from the mark of one that was
)

// prepare makes sure that path is a leases file of ours, and creates one if
// there is none. What it refuses it has not touched. It returns the path
// without symbolic links.
func prepare(ctx context.Context, path string, h host, without missing) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("sqlitelease: %w: %q is no file name", authority.ErrInvalid, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlitelease: %w", err)
	}
	for range 3 { // a second round when another process created it meanwhile
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) && mayMake(path, without) {
			if err := create(ctx, path, h, without == remake); err != nil {
				return "", fmt.Errorf("sqlitelease: %s could not be created: %w", path, err)
			}
			continue
		}
		if err != nil {
			return "", fmt.Errorf("sqlitelease: there is no leases file: %w", err)
		}
		if err := localOnly(real); err != nil {
			return "", err
		}
		if err := checkHeader(real); err != nil {
			return "", err
		}
		return real, oneName(ctx, real)
	}
	return "", fmt.Errorf("sqlitelease: %s: the file vanishes as soon as it is made", path)
}

func mayMake(path string, without missing) bool {
	if without != remake {
		return without == makeNew
	}
	n, err := leftMark(path)
	return n > 0 || err != nil // create says what is wrong with it
}

// checkHeader reads the first bytes of the file itself: opening a database of
// somebody else through SQLite could already change it.
func checkHeader(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case err != nil && isDir(path):
		return fmt.Errorf("sqlitelease: %w: %s is a folder; name a file in it, as in %s", authority.ErrInvalid, path, filepath.Join(path, "leases.db"))
	case errors.Is(err, fs.ErrPermission) || isReadOnly(err):
		return fmt.Errorf("sqlitelease: %s cannot be written to, so no lease can be granted or renewed there. Even a look needs the right to write (readers and writers agree through its -shm): use an account that has it: %w", path, err)
	case err != nil:
		return fmt.Errorf("sqlitelease: %w", err)
	}
	defer f.Close()
	head := make([]byte, 100)
	if _, err := io.ReadFull(f, head); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return foreign(path, "it is too short to be a database (was it cut off, or made by touch?)")
		}
		return fmt.Errorf("sqlitelease: %s cannot be read: %w", path, err)
	}
	id, version := binary.BigEndian.Uint32(head[68:]), binary.BigEndian.Uint32(head[60:])
	switch {
	case string(head[:16]) != "SQLite format 3\x00":
		return foreign(path, "it is no SQLite database, or its first page is damaged")
	case id != applicationID:
		return foreign(path, "it is a SQLite database of another application")
	case version > schemaVersion:
		return newer(path, int64(version))
	case version < schemaVersion:
		return foreign(path, fmt.Sprintf("its file version %d is unknown", version))
	}
	return nil
}

func foreign(path, why string) error {
	return broken(fmt.Errorf("sqlitelease: %s is not a leases file: %s. Nothing was changed; name another path, or move the file away and run stint bump on the new one", path, why))
}

func newer(path string, version int64) error {
	return broken(fmt.Errorf("sqlitelease: %s was written by a newer stint (file version %d, this one knows %d); nothing was changed: update this program",
		path, version, schemaVersion))
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
