// Package report is how stint speaks: exit codes, errors, the lines on standard
// error and the listings on standard output.
package report

// stint's own exit codes. A command's own code is passed through, so that of a
// command which uses the same numbers cannot be told apart, except for the
// conflict, which -E moves.
const (
	ExitUsage    = 64 // the command line is wrong; nothing was done
	ExitService  = 69 // the authority or the fence could not be used
	ExitConflict = 75 // held by another
	ExitLost     = 76 // the lease could not be kept
	ExitConfig   = 78 // no authority, or a wrong one, is configured
)

// Problem is an error with what a person needs to know about it.
type Problem struct {
	Code int
	What string // what happened
	Data string // what it means for the data
	Do   string // what to do
	Err  error  // the cause, shown after What; may be nil
}

func (p *Problem) Error() string {
	if p.Err == nil {
		return p.What
	}
	if p.What == "" {
		return p.Err.Error()
	}
	return p.What + ": " + p.Err.Error()
}

func (p *Problem) Unwrap() error { return p.Err }

// Usage is a wrong command line.
func Usage(what, do string) *Problem {
	return &Problem{Code: ExitUsage, What: what, Data: "nothing was done", Do: do}
}
