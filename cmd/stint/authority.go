package main

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/stint-dev/stint/authority"
	_ "github.com/stint-dev/stint/backends/sqlite/sqlitelease" // sqlite:// URLs
	"github.com/stint-dev/stint/cmd/stint/internal/report"
	"github.com/stint-dev/stint/cmd/stint/internal/settings"
	"github.com/stint-dev/stint/cmd/stint/internal/supervise"
)

// place says which authority is meant.
type place struct {
	url   string
	local bool
}

func (p *place) flags(f *pflag.FlagSet) {
	f.StringVar(&p.url, "authority", "", "URL of the authority that grants the lease, as in sqlite:///path/leases.db")
	f.BoolVar(&p.local, "local", false, "use this host's default file: leases of this host only")
}

// resolve returns the URL. A service without a terminal must say what it
// means: three hosts with a private file each would each hold "the" lease.
func (p *place) resolve(mustSay bool) (string, error) {
	switch {
	case p.url != "" && p.local:
		return "", report.Usage("--authority and --local exclude each other", "give one of them")
	case p.url != "":
		return p.url, nil
	case mustSay && !p.local && !supervise.IsTerminal(os.Stdin) && !supervise.IsTerminal(os.Stderr):
		return "", &report.Problem{Code: report.ExitConfig,
			What: "no authority is named, and there is no terminal to ask at",
			Data: "the command was not started: a file of this host's own would grant the lease to every host at once",
			Do:   "give --authority URL or STINT_AUTHORITY, or --local if the lease is for this host only"}
	}
	file, err := settings.DefaultFile()
	if err != nil {
		return "", &report.Problem{Code: report.ExitConfig, What: "there is no default authority", Err: err,
			Do: "give --authority sqlite:///path/leases.db"}
	}
	return settings.FileURL(file), nil
}

// openToRun opens the authority. A file is made where there is none, with its
// folder.
func (p *place) openToRun(ctx context.Context) (authority.Authority, error) {
	raw, err := p.resolve(true)
	if err != nil {
		return nil, err
	}
	return open(ctx, raw)
}

// openToLook opens an authority that is there already; a listing must not
// create a file where somebody mistyped a path. The file that is missing is an
// error that matches fs.ErrNotExist.
func (p *place) openToLook(ctx context.Context) (authority.Authority, error) {
	raw, err := p.resolve(false)
	if err != nil {
		return nil, err
	}
	if path, ok := filePath(raw); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, &report.Problem{Code: report.ExitService, What: "there is no authority at " + authority.Redact(raw), Err: fs.ErrNotExist,
				Data: "nobody has taken a lease from it yet, or the path is wrong; it was not created",
				Do:   "check --authority and STINT_AUTHORITY"}
		}
	}
	return open(ctx, raw)
}

// filePath is the file that an authority's URL names, if it names one.
func filePath(raw string) (string, bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "sqlite" || u.Host != "" {
		return "", false
	}
	return u.Path, true
}

// isEtcd reports whether a URL names an etcd.
func isEtcd(raw string) bool {
	u, err := authority.ParseURL(raw)
	return err == nil && (u.Scheme == "etcd" || u.Scheme == "etcds")
}

func open(ctx context.Context, raw string) (authority.Authority, error) {
	if u, err := url.Parse(raw); err == nil && u.Scheme != "" && !slices.Contains(authority.Schemes(), u.Scheme) {
		return nil, &report.Problem{Code: report.ExitConfig, What: "this stint does not know authorities like " + authority.Redact(raw),
			Data: "no lease was taken and no command started", Do: "it knows these kinds: " + strings.Join(authority.Schemes(), ", ") + "; check --authority and STINT_AUTHORITY"}
	}
	a, err := authority.Open(ctx, raw)
	if err == nil {
		return a, nil
	}
	p := &report.Problem{Code: report.ExitService, What: "the authority cannot be opened", Err: err,
		Data: "no lease was taken and no command started"}
	if errors.Is(err, authority.ErrInvalid) {
		p.Code, p.Do = report.ExitConfig, "check --authority and STINT_AUTHORITY"
	}
	return nil, p
}

// describe names an authority without its password.
func describe(a authority.Authority, raw string) string {
	if d, ok := a.(authority.Describer); ok {
		return d.Describe()
	}
	return authority.Redact(raw)
}
