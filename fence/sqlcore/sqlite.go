package sqlcore

import (
	"errors"
	"strings"
)

// sqliteDialect makes the first statement of every transaction a write. It
// takes the one write lock before anything is read, so that a transaction which
// was begun deferred never decides by an old snapshot.
var sqliteDialect = &dialect{
	name:  "SQLite",
	now:   "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
	lock:  "INSERT INTO {t} ([name]) VALUES (?) ON CONFLICT ([name]) DO UPDATE SET [admits] = [admits]",
	own:   "UPDATE {t} SET [admits] = [admits] WHERE [name] = ?",
	apart: true,
	migrate: [][]string{{
		`CREATE TABLE IF NOT EXISTS {t} (
  name    TEXT    NOT NULL PRIMARY KEY,
  fence   INTEGER NOT NULL DEFAULT 0,
  nonce   TEXT    NOT NULL DEFAULT '',
  state   TEXT    NOT NULL DEFAULT '',
  owner   INTEGER NOT NULL DEFAULT 0,
  since   INTEGER NOT NULL DEFAULT 0,
  touched INTEGER NOT NULL DEFAULT 0,
  seq     INTEGER NOT NULL DEFAULT 0,
  mark    TEXT    NOT NULL DEFAULT '',
  admits  INTEGER NOT NULL DEFAULT 0,
  prev    TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID`,
		`CREATE INDEX IF NOT EXISTS {t}_running ON {t} ([name]) WHERE [state] = 'RUNNING'`,
		`CREATE TABLE IF NOT EXISTS {m} (
  k TEXT    NOT NULL PRIMARY KEY,
  v INTEGER NOT NULL
) WITHOUT ROWID`,
		`INSERT INTO {m} (k, v) VALUES ('version', 1), ('floor', 0), ('seq', 0) ON CONFLICT (k) DO NOTHING`,
	}},
	forget: []string{`CREATE TRIGGER IF NOT EXISTS {t}_forget AFTER DELETE ON {t} WHEN OLD.[fence] > 0 BEGIN
  UPDATE {m} SET v = MAX(v, CASE k WHEN 'seq' THEN OLD.[seq] + 1 WHEN 'floor' THEN OLD.[fence] - (OLD.[nonce] = '') END) WHERE k IN ('floor', 'seq');
END`},
	kind:    sqliteKind,
	locked:  sqliteLocked,
	gone:    func(err error) bool { return strings.Contains(err.Error(), "no transaction is active") },
	aborted: func(error) bool { return false },
	held: "Another connection holds SQLite's write lock. It is free again when that transaction ends; " +
		"if its process is stopped (SIGSTOP, a frozen container) or hangs in its transaction, that is when the process goes on or is killed",
	reader: "In a rollback journal, COMMIT has to wait for everybody who reads: journal_mode=WAL ends that, and a busy_timeout lets COMMIT wait its turn",
}

func sqliteKind(err error) kind {
	switch s := err.Error(); {
	case sqliteLocked(err), strings.Contains(s, "interrupted"): // while it waited: the caller's context ended
		return busy
	case strings.Contains(s, "no such table"):
		return missing
	}
	return other
}

// sqliteLocked knows SQLITE_BUSY (5) and SQLITE_LOCKED (6), with their extended
// codes, from any driver: modernc has Code() int; others differ in the type of
// their code, but every one of them gives SQLite's own words.
func sqliteLocked(err error) bool {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		if c := coded.Code() & 0xff; c == 5 || c == 6 {
			return true
		}
	}
	s := err.Error()
	return strings.Contains(s, "database is locked") || strings.Contains(s, "table is locked") ||
		strings.Contains(s, "database schema is locked")
}
