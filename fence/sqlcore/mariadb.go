package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stint-dev/stint/fence"
)

// mariaDialect: the first statement of every transaction writes the row, so that
// it reads what was committed last at every isolation level. It writes the
// number of its connection into it, by which a rival that waits for the row
// finds out who holds it, without any right (see mariaHolder).
//
// The key is binary: no collation takes two names for one.
var mariaDialect = &dialect{
	name: "MariaDB",
	now:  "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)",
	lock: "SET STATEMENT {wait} FOR INSERT INTO {t} ([name], [session]) VALUES (?, CONNECTION_ID())" +
		" ON DUPLICATE KEY UPDATE [session] = CONNECTION_ID(), [admits] = [admits] + 1 RETURNING " + columns + ", [mark], [prev]",
	own:       "SET STATEMENT {wait} FOR UPDATE {t} SET [session] = CONNECTION_ID(), [admits] = [admits] + 1 WHERE [name] = ?",
	raise:     raiseMaria,
	forUpdate: " FOR UPDATE",
	session:   ", [session] = CONNECTION_ID()",
	admitted:  " + IF((@stint_grants := CONCAT([fence], '.', [nonce])) IS NULL, 0, 0)",
	around:    aroundMaria,
	holder:    mariaHolder{},
	server:    mariaServer,
	serial:    "SELECT GET_LOCK(CONCAT('stint migrates ', LEFT(SHA1(CONCAT(DATABASE(), '.{t}')), 32)), 60)",
	unlock:    "SELECT RELEASE_LOCK(CONCAT('stint migrates ', LEFT(SHA1(CONCAT(DATABASE(), '.{t}')), 32)))",
	migrate:   [][]string{mariaTables, mariaProcedures},
	adopt:     mariaAdopt,
	forget:    mariaForget,
	protect:   protectMaria,
	kind:      mariaKind,
	locked:    func(error) bool { return false },
	gone:      func(error) bool { return false },
	aborted:   func(error) bool { return false },
	held:      "Another session holds the lock of the fence's row. It is free again when that transaction ends",
}

// raiseMaria locks the row in any case, and changes it further only if the grant
// is let in. MariaDB sets columns from left to right, each by those set before: so
// what goes into the others comes last. Token and nonce need no quoting.
func raiseMaria(e *Engine, name string, g fence.Grant) (string, []any) {
	if e.o.Own != nil {
		return "", nil
	}
	q := strings.NewReplacer(
		"{in}", "([fence] > 0 AND ([fence] < {T} OR [fence] = {T} AND [nonce] IN ('', {N})))", "{same}", "([fence] = {T} AND [nonce] = {N})",
	).Replace(raiseAtOnceMaria)
	q = strings.NewReplacer("{T}", strconv.FormatInt(int64(g.Token), 10), "{N}", "'"+g.Nonce+"'").Replace(q)
	return e.lockWait(e.sql(q)), []any{name}
}

const raiseAtOnceMaria = `SET STATEMENT {wait} FOR INSERT INTO {t} ([name], [session]) VALUES (?, CONNECTION_ID()) ON DUPLICATE KEY UPDATE
  [session] = CONNECTION_ID(), [admits] = [admits] + 1,
  [prev] = IF({in} AND NOT {same}, CONCAT('{"fence":', [fence], ',"nonce":"', [nonce], '","state":"', [state], '","owner":', [owner], ',"since":', [since], ',"seq":', [seq], '}'), [prev]),
  [since] = IF({in} AND NOT ({same} AND [state] = 'RUNNING'), {now}, [since]),
  [state] = IF({in}, 'RUNNING', [state]), [touched] = IF({in}, {now}, [touched]), [owner] = IF({in}, {T}, [owner]),
  [nonce] = IF({in}, {N}, [nonce]), [fence] = IF({in}, {T}, [fence])
 RETURNING ` + columns + `, [mark], [prev]`

// aroundMaria bounds the idle time of a transaction: MariaDB has it for the
// session only, in whole seconds, so it is put back. The grant is for the
// trigger that protects tables.
func aroundMaria(idleMillis int64, grant string) (before, after string) {
	seconds := max(1, (idleMillis+999)/1000)
	return fmt.Sprintf("SET @stint_idle = @@SESSION.idle_transaction_timeout, SESSION idle_transaction_timeout = %d, @stint_grants = '%s'", seconds, grant),
		"SET SESSION idle_transaction_timeout = @stint_idle, @stint_grants = NULL"
}

var mariaTables = []string{
	`CREATE TABLE IF NOT EXISTS {t} (
  name    VARBINARY(1024) NOT NULL PRIMARY KEY,
  fence   BIGINT NOT NULL DEFAULT 0,
  nonce   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  state   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  owner   BIGINT NOT NULL DEFAULT 0,
  since   BIGINT NOT NULL DEFAULT 0,
  touched BIGINT NOT NULL DEFAULT 0,
  seq     BIGINT NOT NULL DEFAULT 0,
  mark    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  admits  BIGINT NOT NULL DEFAULT 0,
  prev    VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  session BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC`,
	`CREATE INDEX IF NOT EXISTS {t}_running ON {t} ([state], [name])`,
	`CREATE TABLE IF NOT EXISTS {m} (
  k VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  v BIGINT NOT NULL
) ENGINE=InnoDB`,
	`INSERT IGNORE INTO {m} (k, v) VALUES ('version', 1), ('floor', 0), ('seq', 0)`,
}

var mariaAdopt = []string{`ALTER TABLE {t}
  ADD COLUMN IF NOT EXISTS [fence]   BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [nonce]   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [state]   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [owner]   BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [since]   BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [touched] BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [seq]     BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [mark]    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [admits]  BIGINT NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [prev]    VARCHAR(1024) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [session] BIGINT UNSIGNED NOT NULL DEFAULT 0`}

var mariaForget = []string{`CREATE OR REPLACE TRIGGER {t}_forget AFTER DELETE ON {t} FOR EACH ROW
  UPDATE {m} SET v = GREATEST(v, CASE k WHEN 'seq' THEN OLD.[seq] + 1 WHEN 'floor' THEN OLD.[fence] - (OLD.[nonce] = '') END)
   WHERE k IN ('floor', 'seq') AND OLD.[fence] > 0`}

// mariaHolder reads the row twice: as an uncommitted transaction has it, and as
// it was committed. Where they differ, the connection whose number stands in the
// uncommitted one holds the row. The server's own tables of locks need the right
// PROCESS, and show only those who wait at that moment.
type mariaHolder struct{}

// What the statements of a transaction never leave as it was.
const versionMaria = "SELECT [session], CONCAT_WS(' ', [fence], [nonce], [admits], [seq], [mark]) FROM {t} WHERE [name] = ?"

func (mariaHolder) find(ctx context.Context, e *Engine, name string) (s session, err error) {
	var was string
	if s.id, s.version, err = e.seenAt(ctx, ReadUncommitted, name); err != nil || s.version == "" {
		return session{}, err
	}
	if _, was, err = e.seenAt(ctx, ReadCommitted, name); err != nil || s.version == was {
		return session{}, err
	}
	s.ms = -1
	// Without the right PROCESS this shows the sessions of the own user only.
	err = one(ctx, e.db, "SELECT user, host, command FROM information_schema.processlist WHERE id = ?", []any{s.id}, &s.user, &s.host, &s.doing)
	if errors.Is(err, errNoRow) {
		err = nil
	}
	return s, err
}

// seenAt reads the row at an isolation level; without a row it is empty.
func (e *Engine) seenAt(ctx context.Context, at Isolation, name string) (id int64, version string, err error) {
	_, err = e.db.Try(ctx, &Attempt{Isolation: at}, func(ctx context.Context, tx Tx) error {
		if err := one(ctx, tx, e.sql(versionMaria), []any{name}, &id, &version); err != nil {
			return err
		}
		return errDone
	})
	if err == errDone || errors.Is(err, errNoRow) {
		err = nil
	}
	return id, version, err
}

func (mariaHolder) end(ctx context.Context, e *Engine, _ string, s session) error {
	_, err := e.db.Exec(ctx, "KILL CONNECTION "+strconv.FormatInt(s.id, 10))
	if errorNumber(err) == 1094 { // it has ended
		return nil
	}
	return err
}

func (mariaHolder) remedy(s session) string {
	return "End it as a user that may (CONNECTION ADMIN): KILL CONNECTION " + s.number()
}

// lockWait puts the lock timeout into a statement. MariaDB counts a wait for a
// lock in whole seconds; what is left of the last one is cut off by the bound on
// the whole statement, which takes fractions. That bound is set in any case: one
// that the session has for other statements would end the wait too early.
func (e *Engine) lockWait(q string) string {
	whole := e.lockTimeout.Truncate(time.Second)
	seconds, bound := max(1, int64(whole/time.Second)), "0"
	if rest := e.lockTimeout - whole; rest > 0 {
		seconds, bound = int64(whole/time.Second)+1, strconv.FormatFloat(max(e.lockTimeout, time.Millisecond).Seconds(), 'f', 3, 64)
	}
	return strings.Replace(q, "{wait}", "innodb_lock_wait_timeout="+strconv.FormatInt(seconds, 10)+", max_statement_time="+bound, 1)
}
