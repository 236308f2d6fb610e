package grpcfence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/gate"
	"github.com/stint-dev/stint/fence/httpfence"
)

// Domain is that of the google.rpc.ErrorInfo which every refusal carries.
const Domain = "github.com/stint-dev/stint"

// The reasons in it.
const (
	ReasonStale       = "STALE_TOKEN"       // FailedPrecondition: a later holder has been admitted
	ReasonRepeated    = "REPEATED_TOKEN"    // FailedPrecondition: one number was given out twice
	ReasonNotRaised   = "NOT_RAISED"        // FailedPrecondition: the holder has not raised the fence
	ReasonMissing     = "MISSING_TOKEN"     // InvalidArgument
	ReasonMalformed   = "MALFORMED_TOKEN"   // InvalidArgument
	ReasonWrongName   = "WRONG_NAME"        // InvalidArgument: the token of another lease
	ReasonDraining    = "DRAINING"          // Unavailable: earlier handlers still run
	ReasonUnavailable = "FENCE_UNAVAILABLE" // Unavailable, or Unknown in a stream under way: the fence could not be asked
)

// refusal chooses what a client is told. FailedPrecondition and not Aborted for a
// stale token: Aborted invites clients, and the retry policies of service
// configurations, to do the same again at a higher level, and a holder that lost
// its lease must stop; only a new lease, with a new token, changes the answer.
// Unavailable is what may simply be repeated, so it is for calls that did not run.
//
// The call's own end is told as gRPC does. A time-out of the fence's store is not
// that: the caller still listens, and its call did not run.
func refusal(ctx context.Context, err error, begun bool) error {
	var stale *fence.StaleError
	var repeated *fence.RepeatedError
	var busy *gate.BusyError
	code, info := codes.FailedPrecondition, &errdetails.ErrorInfo{Domain: Domain, Metadata: map[string]string{}}
	text := err.Error()
	switch {
	case errors.As(err, &stale):
		info.Reason = ReasonStale
		numbers(info, stale.Name, stale.Presented, stale.Fence)
		if begun {
			text = fmt.Sprintf("fence %q: the call of token %d was under way when token %d was admitted. What it had done until then stands. "+
				"This holder has lost its lease: stop, and discard what is in memory", stale.Name, stale.Presented, stale.Fence)
		}
	case errors.As(err, &repeated): // without the grant that is admitted: who has it can write
		info.Reason = ReasonRepeated
		numbers(info, repeated.Name, repeated.Presented.Token, repeated.Admitted.Token)
		text = fmt.Sprintf("fence %q: token %d was already admitted for another grant. Was the authority restored without a bump? "+
			"Nothing was written; raise the authority's counter above %d before going on", repeated.Name, repeated.Presented.Token, repeated.Presented.Token)
	case errors.Is(err, fence.ErrNotRaised), errors.Is(err, fence.ErrNoFence):
		info.Reason = ReasonNotRaised
	case errors.Is(err, httpfence.ErrMissing):
		code, info.Reason = codes.InvalidArgument, ReasonMissing
	case errors.Is(err, httpfence.ErrMalformed):
		code, info.Reason = codes.InvalidArgument, ReasonMalformed
	case errors.Is(err, errName):
		code, info.Reason = codes.InvalidArgument, ReasonWrongName
	case errors.As(err, &busy):
		code, info.Reason = codes.Unavailable, ReasonDraining
		info.Metadata["name"] = busy.Name
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	default:
		code, info.Reason = codes.Unavailable, ReasonUnavailable
		text = "the fence could not be asked: whether the token is still good is not known, so the call was not run. It may be repeated"
		if begun {
			code = codes.Unknown // Unavailable says that it did not run
			text = "the fence could not be asked again: whether the token is still good is not known. The stream is ended here"
		}
	}
	if begun {
		info.Metadata["outcome"] = "unknown"
	}
	return withDetails(code, text, info)
}

func withDetails(code codes.Code, text string, info *errdetails.ErrorInfo) error {
	details := []protoadapt.MessageV1{info}
	if code == codes.Unavailable {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	}
	s, err := status.New(code, text).WithDetails(details...)
	if err != nil { // they are plain messages
		return status.Error(code, text)
	}
	return s.Err()
}

func numbers(info *errdetails.ErrorInfo, name string, presented, fence fence.Token) {
	info.Metadata["name"] = name
	info.Metadata["presented"] = strconv.FormatInt(int64(presented), 10)
	info.Metadata["fence"] = strconv.FormatInt(int64(fence), 10)
}

// RefusedError is a refusal as the client sees it. It matches fence.ErrStale,
// fence.ErrRepeated and fence.ErrNotRaised as the server's own error did, and
// fence.ErrUnknown where the call may have been carried out in part.
type RefusedError struct {
	Reason    string
	Name      string
	Presented fence.Token // zero where numbers play no part
	Fence     fence.Token
	Begun     bool // the call was under way: what it had done stands
	err       error
}

func (e *RefusedError) Error() string { return "grpcfence: refused: " + e.err.Error() }

// Unwrap gives the status.
func (e *RefusedError) Unwrap() error { return e.err }

// Is matches the errors of package fence.
func (e *RefusedError) Is(target error) bool {
	switch target {
	case fence.ErrStale:
		return e.Reason == ReasonStale
	case fence.ErrRepeated:
		return e.Reason == ReasonRepeated
	case fence.ErrNotRaised:
		return e.Reason == ReasonNotRaised
	case fence.ErrUnknown:
		return e.Begun
	}
	return false
}

// Refused is the *RefusedError in the error of a call, or nil for any other error.
func Refused(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return nil
	}
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.Domain != Domain {
			continue
		}
		e := &RefusedError{Reason: info.Reason, Name: info.Metadata["name"], Begun: info.Metadata["outcome"] == "unknown", err: err}
		e.Presented, e.Fence = token(info.Metadata["presented"]), token(info.Metadata["fence"])
		return e
	}
	return nil
}

func token(s string) fence.Token {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || !fence.Token(n).Valid() {
		return 0
	}
	return fence.Token(n)
}
