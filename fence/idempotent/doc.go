// Package idempotent does effects that no fence reaches: a mail, a payment, a
// webhook at a service that knows no tokens. What protects them is a record in
// the database that has the fence: PENDING is written before the call, in one
// transaction with the check of the grant, and DONE after the answer.
//
//	effects, err := idempotent.NewSQL(db, fences, idempotent.SQLOptions{Dialect: sqlfence.SQLite})
//	err = effects.Migrate(ctx)
//	…
//	out, err := idempotent.Do(lease.Context(), effects, claim, idempotent.Effect{
//		Key:       "invoice/4711",
//		TakesKeys: true, // the remote side does one effect for each key
//		Call: func(ctx context.Context, key string) (string, error) { return bank.Pay(ctx, key, amount) },
//	})
//
// A process may die between any two of these steps. Its successor then finds
// PENDING, and nobody knows whether the call was made. It is made again only where
// the remote side takes the same key. Otherwise Effect.Lookup is asked, and where
// there is none, or it does not know either, the record becomes UNKNOWN and is
// left to a person: List shows such records, Resolve settles them. Nothing is
// guessed: without keys and without a lookup, an effect happens at most once; with
// keys, exactly once in the end.
//
// The steps are decided by a machine that the simulator of the project breaks in
// every way (internal/protocol); this package drives it.
package idempotent
