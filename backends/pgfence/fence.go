package pgfence

// The methods only pass on to the engine, as those of sqlfence.Fence do. They are
// written out in both packages, where an embedded type could bring them: users read
// here what a method promises on their database, without leaving the page.

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlcore"
)

// InTx runs fn in a transaction that first admits the claim: what fn writes, by
// statements, batches or COPY, is committed only if the claim's grant is the
// fence, in the same atomic step. Otherwise nothing is written, and the error
// says why (fence.ErrStale, ErrRepeated, ErrNoFence, ErrNotRaised, ErrSequence).
//
// It promises what sqlfence.Fence.InTx does: an error or a panic of fn rolls
// back; a lost answer to COMMIT is settled, and where it cannot be within
// Options.Settle the error matches fence.ErrUnknown, and the next InTx settles it
// first (fence.ErrCommitted: it was applied, fn was not run). fn uses tx alone,
// does not commit or roll back, calls no writing method of this Fence, and
// returns the first error of any statement.
//
// As ever with pgx, ctx ends a statement only if it is given to it: a statement
// whose context ends has its connection closed. When ctx ends before COMMIT is
// sent the transaction is rolled back; not after.
//
// A serialization failure or a deadlock before fn began is repeated; later it is
// returned, and Retryable tells that the same work may be tried again.
func (f *Fence) InTx(ctx context.Context, c fence.Claim, opts pgx.TxOptions, fn func(tx pgx.Tx) error) error {
	if opts.AccessMode == pgx.ReadOnly {
		return errors.New("pgfence: InTx writes the fence row, so TxOptions.AccessMode cannot be ReadOnly: use Check for a read")
	}
	return f.engine.InTx(ctx, c, opts, func(tx sqlcore.Tx) error { return fn(tx.(statements).sender.(pgx.Tx)) })
}

// Raise is fence.Fence's: one transaction that begins with the locking read, so
// that the claim's Previous holds whatever was committed before it. If the
// answer to its COMMIT is lost it repeats itself until it knows; the error
// matches fence.ErrUnknown only if ctx, or Options.Settle, ended before that.
//
// Who holds the fence's row for longer than Options.LockTimeout, a predecessor
// that is frozen inside its transaction, has its session ended; where that right
// is missing the error matches ErrBlocked, and names the session.
//
// A raise repeated by the same grant gives the same Previous. Its claim starts
// a sequence of its own: of the two claims, use one.
func (f *Fence) Raise(ctx context.Context, name string, g fence.Grant) (fence.Claim, error) {
	return f.engine.Raise(ctx, name, g)
}

// Check is fence.Fence's: a plain read, and a hint only.
func (f *Fence) Check(ctx context.Context, c fence.Claim) error { return f.engine.Check(ctx, c) }

// Finish is fence.Fence's. A lost answer is settled by repeating it. It refuses
// a claim whose last InTx is not settled: what it wrote may be missing.
//
// A job whose last write and DONE must not come apart calls FinishTx in its
// last InTx instead.
func (f *Fence) Finish(ctx context.Context, c fence.Claim) error { return f.engine.Finish(ctx, c) }

// FinishTx sets DONE inside a transaction, most usefully one of InTx.
func (f *Fence) FinishTx(ctx context.Context, tx pgx.Tx, c fence.Claim) error {
	return f.engine.FinishTx(ctx, statements{tx}, c)
}

// Claims is fence.Fence's. It reads the index page by page, in the order of the
// names, and holds no transaction or connection while the loop's body runs, so
// the body may Requeue. An error ends it.
func (f *Fence) Claims(ctx context.Context) iter.Seq2[fence.Row, error] { return f.engine.Claims(ctx) }

// ClaimsSQL is the query behind Claims: after a name, at most so many rows. Its
// arguments are that name and number. It is there to be explained, so that
// operators can see that it reads the index.
func (f *Fence) ClaimsSQL() string { return f.engine.ClaimsSQL() }

// Requeue is fence.Fence's. The row must still be RUNNING with exactly the
// owner, nonce and fence of seen.
func (f *Fence) Requeue(ctx context.Context, seen fence.Row) error {
	return f.engine.Requeue(ctx, seen)
}

// Settle finds out how the claim's last InTx ended whose error matched
// fence.ErrUnknown: whether it was applied. It says so again until the next
// InTx. Without anything to settle it tells whether the last InTx of this claim
// was applied. An error that matches fence.ErrUnknown means "still not known".
//
// A loop that simply calls InTx again does not need it (see InTx).
func (f *Fence) Settle(ctx context.Context, c fence.Claim) (applied bool, err error) {
	return f.engine.Settle(ctx, c)
}

// AdmitSQL is the check for those who own their transactions: it must be the transaction's first statement, and must
// report exactly one row affected; otherwise roll back, and Check says why.
//
// It does not count transactions as InTx does: several writers of one grant may
// use it at once, and settling a lost COMMIT answer is up to the caller. So is
// reading the answer to COMMIT: after a statement's error it is a rollback.
func (f *Fence) AdmitSQL(c fence.Claim) (query string, args []any) { return f.engine.AdmitSQL(c) }

// Retryable tells an error after which the same transaction, run again, may well
// succeed: a serialization failure or deadlock, a lock that was not to be had in
// time, a session that the server ended, a server that takes no writes because
// another is the primary now, or that takes no connection. fence.ErrUnknown is
// repeated as well, but as InTx says.
func (f *Fence) Retryable(err error) bool { return f.engine.Retryable(err) }

// Row reads the row of one name. A missing one matches fence.ErrNoFence.
func (f *Fence) Row(ctx context.Context, name string) (fence.Row, error) {
	return f.engine.Row(ctx, name)
}

// Bar shuts out token and all before it, without a claim: it raises the fence
// of name to exactly token+1, with no grant, if it stands lower. It is the first
// half of breaking a lease by hand; the holder's next write is refused, whatever
// it believes. The next holder, token+1 or later, raises as always. State and
// owner stay. Repeating it is harmless. It waits for the row as Raise does.
func (f *Fence) Bar(ctx context.Context, name string, token fence.Token) error {
	return f.engine.Bar(ctx, name, token)
}

// Prune replaces the rows that nobody runs, and that were neither finished nor
// requeued for idle or longer, by one floor for the whole table: the highest
// token among them. A name without a row is then raised only by a token above
// the floor. It returns how many rows were dropped, page by page: with an error,
// those before it.
//
// Only for tables whose tokens all come from one counter (one SQLite or etcd
// authority): with a counter per name, the floor of a busy name would refuse a
// rightful holder of a quiet one. Take an idle time well above the longest lease.
func (f *Fence) Prune(ctx context.Context, idle time.Duration) (n int, err error) {
	return f.engine.Prune(ctx, idle)
}

// Migrate makes the tables and the SQL functions, or brings those of an older
// version up to date. Where all is there it only reads. It is harmless to
// repeat, and when many processes do it at once. It refuses tables of a newer
// version than it knows.
func (f *Fence) Migrate(ctx context.Context) error { return f.engine.Migrate(ctx) }

// MigrateSQL is what Migrate runs on an empty database, for those who keep
// their migrations elsewhere. Every statement may be repeated.
func (f *Fence) MigrateSQL() []string { return f.engine.MigrateSQL() }

// ProtectSQL gives the statements that make a trigger on a table of the caller's
// data: from then on a write to it is refused (SQLSTATE SF005) unless its very
// transaction was admitted by a grant of the fence name. With a column, and name empty, every row
// names its own fence by that column. Repeating them is harmless.
func (f *Fence) ProtectSQL(table, name, column string) ([]string, error) {
	return f.engine.ProtectSQL(table, name, column)
}
