package sqlfence

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/stint-dev/stint/fence"
	"github.com/stint-dev/stint/fence/sqlcore"
)

// InTx runs fn in a transaction that first admits the claim: what fn writes is
// committed only if the claim's grant is the fence, in the same atomic step.
// Otherwise nothing is written, and the error says why (fence.ErrStale,
// ErrRepeated, ErrNoFence, ErrNotRaised, ErrSequence).
//
// An error or a panic of fn rolls back; the error is returned as it is, with the
// cause of ctx if that has ended. When ctx ends before COMMIT is sent, the
// transaction is rolled back; not after. While fn runs on SQLite, every other
// writer of the file waits; elsewhere, who raises the same fence.
//
// A serialization failure or a deadlock before fn began is repeated; later it is
// returned, and Retryable tells that the same work may be tried again.
//
// fn uses tx alone: it does not commit or roll back, and it calls no writing
// method of this Fence, of the same claim or of another, because that would wait
// for fn itself. On fn's own goroutine that is refused at once (ErrNested); on
// another one that fn waits for, or through another *sql.DB of the same file, it
// waits until its context ends. So does a read outside tx where the *sql.DB has
// one connection only. To set DONE in the same transaction there is FinishTx.
//
// fn returns the first error of any statement. PostgreSQL refuses whatever comes
// after one, and InTx then says ErrRolledBack. SQLite rolls the whole
// transaction back by itself for some (ON CONFLICT ROLLBACK, RAISE(ROLLBACK), a
// write whose own context ended, a full disk), and so does MariaDB after a
// deadlock; what is written after that is no part of it. InTx then says ErrRolledBack and does not commit. With a
// driver that offers a commit hook (ncruces, modernc, mattn; InTx takes the
// connection's hook for its own) such a write is refused as well. With any
// other, and on MariaDB, it stands, outside the fence, and the claim is refused from then on:
// raise again, and read how far the work came.
//
// If the answer to COMMIT is lost, InTx finds out whether it was applied, and
// returns nil or an error as if the answer had come. Only if that cannot be
// told within Options.Settle does its error match fence.ErrUnknown. Then call
// InTx again with the same work, as often as it takes: it settles first, and
// where the first try was applied it does not run fn but says
// fence.ErrCommitted, once:
//
//	for chunk < chunks {
//		err := fences.InTx(ctx, claim, nil, func(tx *sql.Tx) error { return bill(tx, chunk) })
//		switch {
//		case err == nil, errors.Is(err, fence.ErrCommitted):
//			chunk++
//		case errors.Is(err, fence.ErrUnknown): // the same chunk again, after a moment
//		default:
//			return err // not billed
//		}
//	}
//
// ErrCommitted speaks of the transaction before, whoever ran it: goroutines that
// share a claim must all stop at ErrUnknown, and settle before any goes on.
//
// A process that dies in between does not need any of it: its successor reads
// after its raise what was committed.
func (f *Fence) InTx(ctx context.Context, c fence.Claim, opts *sql.TxOptions, fn func(tx *sql.Tx) error) error {
	var options any
	if opts != nil {
		if opts.ReadOnly {
			return fmt.Errorf("sqlfence: InTx writes the fence row, so TxOptions.ReadOnly cannot be: use Check for a read")
		}
		options = opts
	}
	return f.engine.InTx(ctx, c, options, func(tx sqlcore.Tx) error { return fn(tx.(statements).sender.(*sql.Tx)) })
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
func (f *Fence) FinishTx(ctx context.Context, tx *sql.Tx, c fence.Claim) error {
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

// AdmitSQL is the check for those who own their transactions (sqlx, an ORM, a
// driver of their own): it must be the transaction's first statement, and must
// report exactly one row affected; otherwise roll back, and Check says why.
//
// It does not count transactions as InTx does: several writers of one grant may
// use it at once, and settling a lost COMMIT answer is up to the caller. So is
// stopping at the first error of any statement: SQLite and MariaDB roll the whole
// transaction back by themselves for some, and every later statement is then
// committed on its own, without the check (see InTx, which guards against it).
func (f *Fence) AdmitSQL(c fence.Claim) (query string, args []any) { return f.engine.AdmitSQL(c) }

// Retryable tells an error after which the same transaction, run again, may well
// succeed: a serialization failure or deadlock, a lock that was not to be had in
// time, a session that the server ended, a server that takes no writes because
// another is the primary now, or that takes no connection. It goes by SQLSTATE or
// the server's number, and needs no driver. fence.ErrUnknown is repeated as well, but as InTx says.
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
// data: from then on a write to it is refused (SQLSTATE SF005) unless it was
// admitted by a grant of the fence name. With a column, and name empty, every row
// names its own fence by that column. Repeating them is harmless.
//
// On PostgreSQL the very transaction must have been admitted. On MariaDB it is
// the session that must have been, by a grant that is the fence at that moment,
// and stays it until the transaction ends. SQLite has no such trigger.
func (f *Fence) ProtectSQL(table, name, column string) ([]string, error) {
	return f.engine.ProtectSQL(table, name, column)
}
