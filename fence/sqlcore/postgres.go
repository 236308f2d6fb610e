package sqlcore

import (
	"context"
	"errors"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// postgresDialect: the first statement of every transaction takes the row's
// lock and returns the row as it is under it, at READ COMMITTED, so that no
// snapshot is older than the lock.
//
// A row is made outside of any transaction: the uncommitted row of a client that
// froze could be seen by nobody, and so nobody could tell who holds it.
var postgresDialect = &dialect{
	name:  "PostgreSQL",
	now:   "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
	lock:  lockPostgres,
	own:   lockPostgres,
	raise: raisePostgres,
	fresh: "WITH wait AS MATERIALIZED (SELECT set_config('lock_timeout', ?, true) AS v) " +
		"INSERT INTO {t} ([name]) SELECT ?::text FROM wait WHERE v IS NOT NULL ON CONFLICT ([name]) DO NOTHING",
	forUpdate:     " FOR UPDATE",
	idleInAdmit:   true,
	readCommitted: true,
	strict:        true,
	numbered:      true,
	holder:        postgresHolder{},
	server:        postgresServer,
	serial:        "SELECT 1 FROM (SELECT pg_advisory_xact_lock(hashtextextended('stint migrates {t}', 0))) AS waited",
	migrate:       [][]string{postgresTables, postgresFunctions},
	adopt:         postgresAdopt,
	forget:        postgresForget,
	protect:       protectPostgres,
	kind:          postgresKind,
	locked:        func(error) bool { return false },
	gone:          func(error) bool { return false },
	aborted: func(err error) bool {
		s := err.Error()
		return strings.Contains(s, "commit unexpectedly resulted in rollback") || // pgx
			strings.Contains(s, "in a failed transaction") // lib/pq
	},
	held: "Another session holds the lock of the fence's row. It is free again when that transaction ends",
}

// set_config comes before the lock is waited for, and costs no request of its own.
const lockPostgres = "WITH wait AS MATERIALIZED (SELECT set_config('lock_timeout', ?, true) AS v) " +
	"SELECT [name], [fence], [nonce], [state], [owner], [since], [seq], [mark], [prev] FROM {t}, wait WHERE [name] = ? AND wait.v IS NOT NULL FOR UPDATE OF {t}"

// raisePostgres changes the row only if the grant is let in. What it keeps of the
// row before comes from the row that it changes, read again after a wait for its
// lock: no snapshot is in between.
func raisePostgres(e *Engine, name string, g fence.Grant) (string, []any) {
	t := int64(g.Token)
	return e.q.raiseAtOnce, []any{t, g.Nonce, t, g.Nonce, t, t, g.Nonce, e.lockTimeoutText(), name, t, t, g.Nonce}
}

const raiseAtOncePostgres = `UPDATE {t} SET
  [prev] = CASE WHEN [fence] = ? AND [nonce] = ? THEN [prev] ELSE json_build_object('fence', [fence], 'nonce', [nonce], 'state', [state], 'owner', [owner], 'since', [since], 'seq', [seq])::text END,
  [since] = CASE WHEN [fence] = ? AND [nonce] = ? AND [state] = 'RUNNING' THEN [since] ELSE {now} END,
  [state] = 'RUNNING', [touched] = {now}, [admits] = [admits] + 1, [owner] = ?, [fence] = ?, [nonce] = ?
 FROM (SELECT set_config('lock_timeout', ?, true) AS v) AS s
 WHERE [name] = ? AND [fence] > 0 AND ([fence] < ? OR [fence] = ? AND [nonce] IN ('', ?)) AND s.v IS NOT NULL
 RETURNING ` + columns + `, [mark], [prev]`

var postgresTables = []string{
	`CREATE TABLE IF NOT EXISTS {t} (
  name    text COLLATE "C" NOT NULL PRIMARY KEY,
  fence   bigint NOT NULL DEFAULT 0,
  nonce   text   NOT NULL DEFAULT '',
  state   text   NOT NULL DEFAULT '',
  owner   bigint NOT NULL DEFAULT 0,
  since   bigint NOT NULL DEFAULT 0,
  touched bigint NOT NULL DEFAULT 0,
  seq     bigint NOT NULL DEFAULT 0,
  mark    text   NOT NULL DEFAULT '',
  admits  bigint NOT NULL DEFAULT 0,
  prev    text   NOT NULL DEFAULT ''
) WITH (fillfactor = 50)`, // every transaction writes the row anew: room for it on the same page
	`CREATE INDEX IF NOT EXISTS {t}_running ON {t} ([name]) WHERE [state] = 'RUNNING'`,
	`CREATE TABLE IF NOT EXISTS {m} (
  k text   NOT NULL PRIMARY KEY,
  v bigint NOT NULL
)`,
	`INSERT INTO {m} (k, v) VALUES ('version', 1), ('floor', 0), ('seq', 0) ON CONFLICT (k) DO NOTHING`,
}

var postgresAdopt = []string{`ALTER TABLE {t}
  ADD COLUMN IF NOT EXISTS [fence]   bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [nonce]   text   NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [state]   text   NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [owner]   bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [since]   bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [touched] bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [seq]     bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [mark]    text   NOT NULL DEFAULT '',
  ADD COLUMN IF NOT EXISTS [admits]  bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS [prev]    text   NOT NULL DEFAULT ''`}

var postgresForget = []string{`CREATE OR REPLACE FUNCTION {f}_forget() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $stint$
BEGIN
  UPDATE {m} SET v = greatest(v, CASE k WHEN 'seq' THEN OLD.[seq] + 1 WHEN 'floor' THEN OLD.[fence] - (OLD.[nonce] = '')::int END)
   WHERE k IN ('floor', 'seq') AND OLD.[fence] > 0;
  RETURN NULL;
END $stint$`,
	`DROP TRIGGER IF EXISTS {t}_forget ON {t}`,
	`CREATE TRIGGER {t}_forget AFTER DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION {f}_forget()`,
}

// postgresHolder goes by the row's xmax: the transaction that has changed or
// locked it and has not ended. That is the one that is in the way, where
// pg_blocking_pids would name whoever waits in front of us as well. Its session
// must also hold a lock on the table, because xmax may be the number of a set of
// lockers, which is counted apart.
//
// A COMMIT that waits for its standby is left alone: ending its session would
// make visible what the standby does not have.
type postgresHolder struct{}

const heldPostgres = ` FROM {t} JOIN pg_locks l ON l.locktype = 'transactionid' AND l.transactionid = {t}.xmax AND l.granted AND l.mode = 'ExclusiveLock'
 JOIN pg_locks r ON r.locktype = 'relation' AND r.relation = '{t}'::regclass AND r.virtualtransaction = l.virtualtransaction AND r.granted AND r.mode IN ('RowShareLock', 'RowExclusiveLock')
 LEFT JOIN pg_stat_activity a ON a.pid = l.pid
 LEFT JOIN pg_prepared_xacts p ON p.transaction = {t}.xmax
 WHERE [name] = ? AND a.wait_event IS DISTINCT FROM 'SyncRep'`

func (postgresHolder) find(ctx context.Context, e *Engine, name string) (found session, err error) {
	q := e.sql(`SELECT COALESCE(l.pid, 0), COALESCE(a.usename::text, ''), COALESCE(a.application_name, ''), COALESCE(host(a.client_addr), ''), COALESCE(a.state, ''),
 COALESCE((extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint, -1), COALESCE(p.gid, '')` + heldPostgres + ` LIMIT 1`)
	err = e.plain(ctx, func() error {
		return one(ctx, e.db, q, []any{name}, &found.id, &found.user, &found.program, &found.host, &found.doing, &found.ms, &found.prepared)
	})
	if errors.Is(err, errNoRow) {
		return session{}, nil
	}
	return found, err
}

// end looks once more, so that it is that session's transaction which is ended,
// and not one that the same session has begun since.
func (postgresHolder) end(ctx context.Context, e *Engine, name string, s session) error {
	var done string
	q := e.sql("SELECT pg_terminate_backend(l.pid)::text" + heldPostgres + " AND l.pid = ? LIMIT 1")
	err := e.plain(ctx, func() error { return one(ctx, e.db, q, []any{name, s.id}, &done) })
	if errors.Is(err, errNoRow) {
		return nil
	}
	return err
}

func (postgresHolder) remedy(s session) string {
	if s.prepared != "" {
		return "It is a prepared transaction: COMMIT PREPARED or ROLLBACK PREPARED '" + s.prepared + "'"
	}
	return "End it as a role that may: SELECT pg_terminate_backend(" + s.number() + "), or GRANT pg_signal_backend to this one"
}
