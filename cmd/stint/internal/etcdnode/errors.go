package etcdnode

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// Sentinels, for errors.Is: what a node was refused for.
var (
	// ErrSettings: a setting is wrong; nothing was done.
	ErrSettings = errors.New("the settings are wrong")
	// ErrInUse: another process has the data folder.
	ErrInUse = errors.New("the data folder is in use")
	// ErrDamaged: the data folder cannot be read as what it should be.
	ErrDamaged = errors.New("the data folder is damaged")
	// ErrRepeats: the data would hand out again tokens that were handed out.
	ErrRepeats = errors.New("the data would repeat tokens")
	// ErrPortTaken: another process listens on an address of this node.
	ErrPortTaken = errors.New("the address is taken")
	// ErrDiskFull: there is no room left for the data.
	ErrDiskFull = errors.New("the disk is full")
)

// Refusal is an error with what it means and what to do.
type Refusal struct {
	Kind error  // one of the sentinels; nil: none of them
	What string // what happened
	Data string // what it means for the data
	Do   string // what to do
	Err  error  // the cause; may be nil
}

func (r *Refusal) Error() string {
	if r.Err == nil {
		return r.What
	}
	return r.What + ": " + r.Err.Error()
}

func (r *Refusal) Unwrap() []error { return []error{r.Kind, r.Err} }

func (s Settings) refuseSettings(err error) error {
	return &Refusal{Kind: ErrSettings, What: "this node cannot be started so", Err: err, Data: "nothing was done",
		Do: "correct the settings: stint serve --help says what they mean"}
}

func damaged(dir, what string, err error) error {
	return &Refusal{Kind: ErrDamaged, What: fmt.Sprintf("the data folder %s is damaged (%s)", dir, what), Err: err,
		Data: "nothing was changed, and no lease is granted from it",
		Do: "restore the last snapshot into an empty folder with stint restore, which raises the counter of tokens; " +
			"of several nodes, the others go on without this one"}
}

// ended puts into words why a running node, or one that starts, gave up.
func (s Settings) ended(err error) error {
	text := err.Error()
	switch {
	case noRoom(err) || strings.Contains(text, "no space left") || strings.Contains(text, "file too large"):
		return &Refusal{Kind: ErrDiskFull, What: "the node has stopped: there is no room for " + s.Data, Err: err,
			Data: "what was granted stays granted; nothing was half written",
			Do:   "make room on that disk (or raise the limit of the file size), then start the node again"}
	case errors.Is(err, syscall.EIO):
		return &Refusal{What: "the node has stopped: the disk under " + s.Data + " fails", Err: err,
			Data: "what was granted stays granted until its length is over",
			Do:   "replace the disk; of several nodes, the others go on without this one"}
	case errors.Is(err, syscall.EADDRINUSE):
		return &Refusal{Kind: ErrPortTaken, What: "another process listens on an address of this node", Err: err,
			Data: "the node was not started", Do: "is another stint serve, or an etcd, running here? Else give --listen and --peers another port"}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &Refusal{Kind: ErrSettings, What: "this host has no such address", Err: err,
			Data: "the node was not started", Do: "check --listen, --listen-peer and --peers"}
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EROFS):
		return &Refusal{What: "the node may not write to " + s.Data, Err: err,
			Data: "nothing was changed", Do: "check the folder's owner and mode"}
	}
	return &Refusal{What: "the node has stopped", Err: err,
		Data: "what was granted stays granted until its length is over",
		Do:   "start it again; if it stops again, see what etcd says with --verbose"}
}

// unusable puts into words why the data folder could not be taken.
func (s Settings) unusable(err error) error {
	for _, wrong := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.ELOOP} {
		if errors.Is(err, wrong) {
			return &Refusal{Kind: ErrSettings, What: "there can be no data folder " + s.Data, Err: err,
				Data: "nothing was done", Do: "check --data (or where the default is)"}
		}
	}
	return s.ended(err)
}

func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
