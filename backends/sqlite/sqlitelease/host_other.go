//go:build !linux && !darwin

package sqlitelease

import (
	"errors"
	"os"
)

var errSystem = errors.New("sqlitelease works on Linux and macOS")

func hostIdentity() (host, error)                    { return host{}, errSystem }
func localOnly(string) error                         { return errSystem }
func inodeIn(os.FileInfo) (inode, uint64, error)     { return inode{}, 0, errSystem }
func giveName(string, string) error                  { return errSystem }
func isMount(string) (bool, error)                   { return false, errSystem }
func isReadOnly(error) bool                          { return false }
func makePipe(string, os.FileMode) (*os.File, error) { return nil, errSystem }
func ring(string) (dead bool)                        { return false }
