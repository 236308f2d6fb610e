package sqlcore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// Dialect names a database's SQL.
type Dialect int

// The databases. MariaDB's statements use its own syntax, which MySQL refuses.
const (
	SQLite     Dialect = 1 // in any journal mode
	PostgreSQL Dialect = 2 // 13 or later
	MariaDB    Dialect = 3 // 10.6 or later
)

// String is the name of the database.
func (d Dialect) String() string {
	if known, ok := dialects[d]; ok {
		return known.name
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// kind is what an error of the database means for what is done next.
type kind int

const (
	other    kind = iota
	busy          // somebody else has the lock: again after a moment
	timedOut      // the statement's own bound on waiting for a lock ran out
	tooLong       // the statement's bound on all that it does ran out
	conflict      // serialization failure or deadlock: the transaction was undone, again
	cut           // the server ended the session
	readOnly      // the server takes no writes: a standby, or demoted
	missing       // the table does not exist
	denied        // the right is missing
)

// dialect is what differs between databases. In the statements, {t} stands for
// the table, {m} for its companion, {f} for the stem of functions, {now} for
// the clock, [fence] for the column of that name.
type dialect struct {
	name string
	now  string // milliseconds since 1970 by the store's clock
	// lock is the first statement of a transaction that decides by what it
	// reads: it takes the lock under which no other writer can change the row,
	// and makes the row if there is none, unless fresh does. It returns the row
	// itself, unless apart.
	lock  string
	apart bool
	// own is lock for a table of the caller's, in which no row is made.
	own string
	// fresh makes the row of a name outside of any transaction.
	fresh string
	// raise does in one statement what most raises need: it takes the lock, admits
	// the grant if the rules let it in, and returns the row. Fewer turns between
	// lock and COMMIT let more contenders through. Nil: lock, then decide.
	raise func(e *Engine, name string, g fence.Grant) (query string, args []any)
	// forUpdate ends a SELECT that locks what it reads.
	forUpdate string
	// session is what every statement that locks a row adds to its SET list.
	session string
	// admitted is what AdmitSQL's statement adds, for the trigger.
	admitted string
	// idleInAdmit bounds the idle time of a transaction by its first UPDATE.
	idleInAdmit bool
	// around are statements before and after a transaction of InTx.
	around func(idleMillis int64, grant string) (before, after string)
	// readCommitted: the engine's own transactions ask for that level.
	readCommitted bool
	// strict: after an error the database refuses everything up to the end of
	// the transaction, and rolls it back.
	strict bool
	// numbered placeholders: $1, $2.
	numbered bool
	// holder finds who holds a row, and ends sessions; nil where nobody can.
	holder holder
	server server
	// serial takes the lock that makes migrations one after another; unlock
	// gives it back where the transaction's end does not.
	serial, unlock string
	// migrate makes what version i+1 adds; adopt adds the columns to a table of
	// the caller's. Each statement may be repeated.
	migrate [][]string
	adopt   []string
	// forget is for such a table, too: a row that is deleted leaves its floor, as
	// Prune does, so that the job made anew does not let in an old holder.
	forget []string
	// protect makes a trigger for each of these, or (one) for all.
	protect func(table, name, column string) []string

	kind    func(error) kind
	locked  func(error) bool // after COMMIT: it was not carried out because of a lock
	gone    func(error) bool // no transaction is open
	aborted func(error) bool // COMMIT rolled back
	held    string           // what holds a lock for long, for people
	reader  string           // of a lock that only COMMIT meets
}

var dialects map[Dialect]*dialect

// Filled here because the dialects' functions refer to the map's readers.
func init() {
	dialects = map[Dialect]*dialect{SQLite: sqliteDialect, PostgreSQL: postgresDialect, MariaDB: mariaDialect}
}

// queries are the statements of one table.
type queries struct {
	lock, fresh, read, locked, floors, raise, again string
	admit, admitSeq, admits, ours                   string
	finish, requeue, claims                         string
	bar, drop, now, idle, setFloor, version         string
	setVersion, raiseAtOnce                         string
}

const columns = "[name], [fence], [nonce], [state], [owner], [since], [seq]"

func (d *dialect) queries(o Options) *queries {
	fill := d.filler(o)
	r := func(s string) string { return d.placeholders(fill(s)) }
	mine := " WHERE [name] = ? AND [fence] = ? AND [nonce] = ?"
	admit := "UPDATE {t} SET [seq] = {t}.[seq] + 1, [mark] = ?{session}" + mine
	if d.idleInAdmit {
		admit = "UPDATE {t} SET [seq] = {t}.[seq] + 1, [mark] = ? FROM (SELECT set_config('idle_in_transaction_session_timeout', ?, true) AS v) AS s" + mine + " AND s.v IS NOT NULL"
	}
	lock := d.lock
	if o.Own != nil {
		lock = d.own
	}
	ours := "SELECT 1 FROM {t}" + mine + " AND [mark] = ?"
	if o.Own != nil { // where the function may have deleted the row itself
		ours = "SELECT 1 FROM {m} WHERE k = 'version' AND (EXISTS (" + ours + ") OR NOT EXISTS (SELECT 1 FROM {t} WHERE [name] = ?))"
	}
	return &queries{
		lock:   r(lock),
		fresh:  r(d.fresh),
		read:   r("SELECT " + columns + ", [mark], [prev] FROM {t} WHERE [name] = ?"),
		locked: r("SELECT " + columns + ", [mark], [prev] FROM {t} WHERE [name] = ?" + d.forUpdate),
		floors: r("SELECT MAX(CASE WHEN k = 'floor' THEN v ELSE 0 END), MAX(CASE WHEN k = 'seq' THEN v ELSE 0 END) FROM {m}"),
		raise: r("UPDATE {t} SET [fence] = ?, [nonce] = ?, [owner] = ?, [state] = 'RUNNING', [since] = {now}, [touched] = {now}, [prev] = ?, [seq] = ?, [admits] = [admits] + 1{session}" +
			" WHERE [name] = ? AND ([fence] < ? OR ([fence] = ? AND [nonce] = ''))"),
		again: r("UPDATE {t} SET [since] = CASE WHEN [state] = 'RUNNING' THEN [since] ELSE {now} END, [state] = 'RUNNING', [touched] = {now}, [admits] = [admits] + 1{session}" + mine),

		raiseAtOnce: r(raiseAtOncePostgres),

		admit:    r(admit),
		admitSeq: r(admit + " AND [seq] = ?"),
		admits:   r("UPDATE {t} SET [admits] = [admits] + 1{session}{admitted}" + mine),
		ours:     r(ours + d.inside()),

		finish:  r("UPDATE {t} SET [state] = 'DONE', [touched] = {now}, [admits] = [admits] + 1{session}" + mine),
		requeue: r("UPDATE {t} SET [state] = 'QUEUED', [touched] = {now}, [admits] = [admits] + 1{session}" + mine + " AND [owner] = ? AND [state] = 'RUNNING'"),
		claims:  r("SELECT " + columns + " FROM {t} WHERE [state] = 'RUNNING' AND [name] > ? ORDER BY [name] LIMIT ?"),

		bar:        r("UPDATE {t} SET [fence] = ?, [nonce] = '', [touched] = {now}, [seq] = ?, [admits] = [admits] + 1{session} WHERE [name] = ? AND [fence] <= ?"),
		drop:       r("DELETE FROM {t} WHERE [name] = ? AND [fence] = 0"),
		now:        r("SELECT {now}"),
		idle:       r("SELECT " + columns + " FROM {t} WHERE [state] <> 'RUNNING' AND [touched] <= ? ORDER BY [name] LIMIT ?" + skipLocked(d.forUpdate)),
		setFloor:   r("UPDATE {m} SET v = ? WHERE k = ? AND v < ?"),
		version:    r("SELECT v FROM {m} WHERE k = 'version'"),
		setVersion: r("UPDATE {m} SET v = ? WHERE k = 'version' AND v < ?"),
	}
}

// inside tells MariaDB's implicit commits from a transaction that is still open.
func (d *dialect) inside() string {
	if d.around != nil {
		return " AND @@in_transaction = 1"
	}
	return ""
}

// filler puts names in place of what stands for them.
func (d *dialect) filler(o Options) func(string) string {
	prefix := ""
	if o.Own != nil {
		prefix = o.Own.Prefix
	}
	lists := strings.NewReplacer("{session}", d.session, "{admitted}", d.admitted)
	pairs := []string{"{t}", o.Table, "{m}", o.Table + "_meta", "{f}", stem(o.Table), "{now}", d.now, "[name]", o.key()}
	for _, c := range []string{"fence", "nonce", "state", "owner", "since", "touched", "seq", "mark", "admits", "prev", "session"} {
		pairs = append(pairs, "["+c+"]", prefix+c)
	}
	names := strings.NewReplacer(pairs...)
	return func(s string) string { return names.Replace(lists.Replace(s)) }
}

// stem is what the names of functions begin with: stint_raise for the table
// stint_fence.
func stem(table string) string { return strings.TrimSuffix(table, "_fence") }

func (d *dialect) placeholders(s string) string {
	if !d.numbered {
		return s
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(s, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		s = after
	}
}

// skipLocked: a row that somebody works with is not idle.
func skipLocked(forUpdate string) string {
	if forUpdate == "" {
		return ""
	}
	return forUpdate + " SKIP LOCKED"
}
