package etcdlease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stint-dev/stint/authority"
)

// words turns the errors of etcd and of its client into plain ones: what
// happened, what it means for the leases, what to do. It knows no password.
type words struct {
	prefix string
	user   string    // empty: none, or not known
	login  *login    // nil: there is none
	files  *tlsFiles // nil: no TLS
	wires  *wires    // nil: the client is its user's own
}

// refusal is an error of the servers with what is to be said of it.
type refusal struct {
	is     error
	broken bool // surely nothing was changed, and trying again does not help
	say    func(*words) string
}

// refusals, the more special ones first. A refusal for want of space is not
// definite: etcd carries out the very request that fills it, and then refuses
// it. A wrong password is definite and still not broken: user, password file
// and servers are not changed in one instant.
var refusals = []refusal{
	{rpctypes.ErrAuthFailed, false, (*words).wrongPassword},
	{rpctypes.ErrInvalidAuthToken, false, (*words).lostLogin},
	{rpctypes.ErrAuthOldRevision, false, (*words).lostLogin},
	{rpctypes.ErrUserEmpty, true, (*words).noUser},
	{rpctypes.ErrPermissionDenied, true, (*words).notPermitted},
	{rpctypes.ErrNoSpace, false, always("etcd is out of space (its alarm NOSPACE): nothing new is granted until there is room, and what was asked for just now may have been done or not; " +
		"leases that are held go on, and can be given back. Make room (etcdctl compact, etcdctl defrag, or a larger --quota-backend-bytes), then run etcdctl alarm disarm")},
	{rpctypes.ErrCorrupt, true, always("etcd has found that its members do not agree (its alarm CORRUPT) and refuses every change: nothing was changed, and nothing can be granted or given back; " +
		"leases that are held go on. Find the member that is wrong, restore it, then run etcdctl alarm disarm")},
	{rpctypes.ErrRequestTooLarge, false, always("the request is larger than etcd takes (its --max-request-bytes): nothing was changed")},
	{rpctypes.ErrTooManyRequests, false, always("etcd has more requests waiting than it takes: nothing was changed, and it is tried again")},
	{rpctypes.ErrNoLeader, false, always("etcd has no leader at the moment: an election is on, or more than half of its members cannot be reached; leases that are held go on until their stop times")},
	{rpctypes.ErrNotCapable, false, always("etcd's members cannot do this yet: is one of them older than version 3.4, or still starting?")},
	{rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner), false, always("the host is a learner, which does not serve requests: name its voting members in the URL")},
}

func always(what string) func(*words) string { return func(*words) string { return what } }

// explain returns err in plain words. It matches err, and authority.ErrBroken
// where surely nothing was changed and trying again does not help; all other
// errors mean "perhaps". What is not an error of etcd or its client is returned
// as it is.
func (w *words) explain(err error) error {
	return w.plain(err, "; the request may have been carried out")
}

// explainRead is explain for a request that changes nothing in any case.
func (w *words) explainRead(err error) error { return w.plain(err, "; nothing was changed") }

func (w *words) plain(err error, unanswered string) error {
	if err == nil {
		return nil
	}
	plain := rpctypes.Error(err)
	for _, r := range refusals {
		if errors.Is(plain, r.is) {
			if r.broken {
				return fmt.Errorf("etcdlease: %s: %w: %w", r.say(w), authority.ErrBroken, err)
			}
			return fmt.Errorf("etcdlease: %s: %w", r.say(w), err)
		}
	}
	switch code := codeOf(err); code {
	case codes.OK:
		return err // one of ours
	case codes.DeadlineExceeded:
		return fmt.Errorf("etcdlease: no answer from etcd in time%s%s: %w", unanswered, w.because(), err)
	case codes.Canceled:
		return fmt.Errorf("etcdlease: the request was given up%s: %w", w.because(), err)
	case codes.Unavailable:
		return fmt.Errorf("etcdlease: etcd cannot be reached, or has just changed its leader%s%s: %w", unanswered, w.because(), err)
	case codes.Unauthenticated:
		return fmt.Errorf("etcdlease: etcd was not asked: %w", err)
	case codes.ResourceExhausted:
		return fmt.Errorf("etcdlease: a message is larger than etcd or its client takes: %w", err)
	default:
		return fmt.Errorf("etcdlease: unexpected error of etcd%s: %w", w.because(), err)
	}
}

// codeOf is the gRPC code of an error, and OK for what is none of gRPC's.
func codeOf(err error) codes.Code {
	var etcd rpctypes.EtcdError
	var grpcError interface{ GRPCStatus() *status.Status }
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.As(err, &etcd):
		return etcd.Code()
	case errors.As(err, &grpcError):
		return status.Code(err)
	}
	return codes.OK
}

// because is what is known of the servers and of the files.
func (w *words) because() string {
	var all []string
	if r := w.wires.report(); r != "" {
		all = append(all, r)
	}
	if err := w.files.troubled(); err != nil {
		all = append(all, "the files of the TLS connection cannot be used, those before are: "+err.Error())
	}
	if err := w.login.troubled(); err != nil {
		all = append(all, "the user or password cannot be read, those before are used: "+err.Error())
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, "; ") + ")"
}

func (w *words) who() string {
	if w.user == "" {
		return "the user"
	}
	return fmt.Sprintf("the user %q", w.user)
}

func (w *words) wrongPassword() string {
	what := "etcd refuses " + w.who() + " or the password"
	if w.login == nil {
		return what + ": nothing was changed"
	}
	what += " of " + w.login.password.String() + ": nothing was changed; leases that are held end at their stop times, unless it is right before"
	if w.login.password.file != "" {
		what += ". The file is read again at each try: put the right password there, no restart is needed"
	}
	return what + w.because()
}

func (w *words) lostLogin() string {
	return "etcd does not know the login of " + w.who() + " any more: nothing was changed, and it logs in anew"
}

func (w *words) noUser() string {
	return "etcd asks for a user, and the URL names none: nothing was changed; write user@ before the host with password-file=, or use the certificate of a user"
}

func (w *words) notPermitted() string {
	return fmt.Sprintf("etcd does not let %s read and write all keys that begin with %q: nothing was changed, and no lease there can be granted or renewed; "+
		"give its role that right: etcdctl role grant-permission --prefix=true ROLE readwrite %s/", w.who(), w.prefix+"/", w.prefix)
}
