//go:build !linux && !darwin

package sqlitelease

import (
	"errors"
	"os"
)

var errSystem = errors.New("sqlitelease works on Linux and macOS")

func hostIdentity() (host, error)                    { return host{}, errSystem }
func localOnly(string) error                         { return errSystem }
func inodeIn(os.FileInfo) (inode, error)             { return inode{}, errSystem }
func isReadOnly(error) bool                          { return false }
func makePipe(string, os.FileMode) (*os.File, error) { return nil, errSystem }
func ring(string) (dead bool)                        { return false }
