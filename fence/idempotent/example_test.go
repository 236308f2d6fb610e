package idempotent_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/idempotent"
)

// A mail whose sender died between its record and the end of the call is not sent
// again blindly. In production the store is an idempotent.SQL, and ctx that of the
// lease.
func Example() {
	ctx := context.Background()
	fences := fence.NewMemory()
	effects := idempotent.NewMemory(fences)
	mail := idempotent.Effect{
		Key:         "welcome/ann",
		Call:        func(context.Context, string) (string, error) { return "", errors.New("connection lost") },
		CallTimeout: time.Second,
	}
	claim, err := fences.Raise(ctx, "mailer", fence.Grant{Token: 7, Nonce: "a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := idempotent.Do(ctx, effects, claim, mail)
	fmt.Println(out.State, errors.Is(err, fence.ErrUnknown))

	// A person looks into the mail server's log, and says that it was sent.
	open, err := effects.List(ctx)
	fmt.Println(len(open), open[0].Key, err)
	fmt.Println(idempotent.Resolve(ctx, effects, claim, open[0].Key, true, "found in the log"))

	out, err = idempotent.Do(ctx, effects, claim, mail)
	fmt.Println(out.State, out.Result, err)
	// Output:
	// UNKNOWN true
	// 1 welcome/ann <nil>
	// <nil>
	// DONE found in the log <nil>
}
