package sqlfence

import (
	"fmt"
	"strings"
)

// Dialect names a database's SQL.
type Dialect int

// SQLite, in any journal mode, with any driver of database/sql.
const SQLite Dialect = 1

// String is the name of the database.
func (d Dialect) String() string {
	if known, ok := dialects[d]; ok {
		return known.name
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// dialect is what differs between databases. In the statements, {t} stands for
// the table, {m} for its companion, {now} for the clock.
type dialect struct {
	name string
	now  string // milliseconds since 1970 by the store's clock
	// lock is the first statement of a transaction that decides by what it
	// reads: it makes the row of a name if there is none, and takes the lock
	// under which no other writer can change it.
	lock string
	// migrate makes what version i+1 adds. Each statement may be repeated.
	migrate [][]string
	// busy tells an error that says only "somebody else has the lock".
	busy func(error) bool
	// locked is busy without the doubtful: after COMMIT, it says that COMMIT
	// was not carried out.
	locked func(error) bool
	// missing tells an error that says that the table does not exist.
	missing func(error) bool
	// held says, for people, what holds a lock for long.
	held string
	// reader says it of a lock that only COMMIT meets.
	reader string
	// gone tells COMMIT's or ROLLBACK's error that no transaction is open: it
	// ended before, by the database itself or by a statement.
	gone func(error) bool
	// commitHook gives, for a driver's connection, how a commit hook is set on
	// it (nil takes it away); nil where the driver has none.
	commitHook func(driverConn any) func(allow func() bool)
}

var dialects = map[Dialect]*dialect{SQLite: sqliteDialect}

// queries are the statements of one table.
type queries struct {
	lock, read, floor, raise, again           string
	admit, admitSeq, admits, ours             string
	finish, requeue, claims                   string
	bar, drop, idle, prune, setFloor, version string
	setVersion                                string
}

const columns = "name, fence, nonce, state, owner, since, seq"

func (d *dialect) queries(table string) *queries {
	r := d.fill(table)
	mine := " WHERE name = ? AND fence = ? AND nonce = ?"
	return &queries{
		lock:  r(d.lock),
		read:  r("SELECT " + columns + ", mark, prev FROM {t} WHERE name = ?"),
		floor: r("SELECT v FROM {m} WHERE k = 'floor'"),
		raise: r("UPDATE {t} SET fence = ?, nonce = ?, owner = ?, state = 'RUNNING', since = {now}, touched = {now}, prev = ?, admits = admits + 1" +
			" WHERE name = ? AND (fence < ? OR (fence = ? AND nonce = ''))"),
		again: r("UPDATE {t} SET since = CASE WHEN state = 'RUNNING' THEN since ELSE {now} END, state = 'RUNNING', touched = {now}, admits = admits + 1" + mine),

		admit:    r("UPDATE {t} SET seq = seq + 1, mark = ?" + mine),
		admitSeq: r("UPDATE {t} SET seq = seq + 1, mark = ?" + mine + " AND seq = ?"),
		admits:   r("UPDATE {t} SET admits = admits + 1" + mine),
		ours:     r("SELECT 1 FROM {t}" + mine + " AND mark = ?"),

		finish:  r("UPDATE {t} SET state = 'DONE', touched = {now}, admits = admits + 1" + mine),
		requeue: r("UPDATE {t} SET state = 'QUEUED', touched = {now}" + mine + " AND owner = ? AND state = 'RUNNING'"),
		claims:  r("SELECT " + columns + " FROM {t} WHERE state = 'RUNNING' AND name > ? ORDER BY name LIMIT ?"),

		bar:  r("UPDATE {t} SET fence = ?, nonce = '', touched = {now} WHERE name = ? AND fence <= ?"),
		drop: r("DELETE FROM {t} WHERE name = ? AND fence = 0"),
		idle: r("SELECT {now}, COALESCE(MAX(CASE WHEN nonce = '' THEN fence - 1 ELSE fence END), 0), COALESCE(MAX(seq) + 1, 0) FROM {t}" +
			" WHERE state <> 'RUNNING' AND touched <= {now} - ?"),
		prune:      r("DELETE FROM {t} WHERE state <> 'RUNNING' AND touched <= ?"),
		setFloor:   r("UPDATE {m} SET v = ? WHERE k = ? AND v < ?"),
		version:    r("SELECT v FROM {m} WHERE k = 'version'"),
		setVersion: r("UPDATE {m} SET v = ? WHERE k = 'version' AND v < ?"),
	}
}

func (d *dialect) fill(table string) func(string) string {
	return strings.NewReplacer("{t}", table, "{m}", table+"_meta", "{now}", d.now).Replace
}
