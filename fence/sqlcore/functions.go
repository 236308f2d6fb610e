package sqlcore

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/stint-dev/stint/fence"
)

// The SQL functions are in files of their own, for those who read them before
// they run them.
var (
	//go:embed postgres.sql
	postgresSQL string
	//go:embed mariadb.sql
	mariaSQL string

	postgresFunctions = statements(postgresSQL, "END $stint$;\n")
	mariaProcedures   = statements(mariaSQL, "END;\n")
)

// statements cuts a file at the ends of functions.
func statements(file, end string) (all []string) {
	for _, s := range strings.SplitAfter(file, "\n"+end) {
		s, _ = strings.CutSuffix(strings.TrimSpace(s), ";")
		if s != "" {
			all = append(all, s)
		}
	}
	return all
}

// makes is how {f}_raise makes a row, or refuses to in a table of the caller's.
func (d *dialect) makes(o Options) string {
	switch {
	case d == postgresDialect && o.Own != nil:
		return "PERFORM {f}_refuse(p_name, g.token, g.nonce);"
	case d == postgresDialect:
		return "INSERT INTO {t} ([name]) VALUES (p_name) ON CONFLICT ([name]) DO NOTHING;"
	case o.Own != nil:
		return "UPDATE {t} SET [session] = CONNECTION_ID(), [admits] = [admits] + 1 WHERE [name] = p_name;"
	}
	return "INSERT INTO {t} ([name], [session]) VALUES (p_name, CONNECTION_ID()) ON DUPLICATE KEY UPDATE [session] = CONNECTION_ID(), [admits] = [admits] + 1;"
}

// What a trigger is made for: an identifier, or one with a schema before it.
var protectable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,47}(\.[A-Za-z_][A-Za-z0-9_]{0,47})?$`)

// ProtectSQL gives the statements that make a trigger on a table of the caller's
// data: from then on a write to it is refused, unless its transaction has
// admitted a grant of the fence name. With a column, and name empty, every row
// names its own fence by that column. Repeating them is harmless. Not for SQLite.
func (e *Engine) ProtectSQL(table, name, column string) ([]string, error) {
	switch {
	case e.d.protect == nil:
		return nil, e.errorf("protect %s: not on %s, which cannot tell in a trigger which transaction was admitted", table, e.d.name)
	case !protectable.MatchString(table):
		return nil, e.errorf("protect: table name %q: it is a letter or '_', then letters, digits and '_'", table)
	case (name == "") == (column == ""):
		return nil, e.errorf("protect %s: give the name of the fence or the column that holds it", table)
	case column == "" && fence.CheckName(name) != nil:
		return nil, e.errorf("protect %s: %w", table, fence.CheckName(name))
	case column != "" && !columnName.MatchString(column):
		return nil, e.errorf("protect %s: column name %q", table, column)
	}
	var all []string
	for _, s := range e.d.protect(table, quoteSQL(name), column) {
		all = append(all, strings.ReplaceAll(s, "{f}", stem(e.o.Table)))
	}
	return all, nil
}

// quoteSQL makes a literal. A name has no control characters; a backslash is an
// escape for MariaDB only, and is written as nothing special for both.
func quoteSQL(s string) string {
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

func protectPostgres(table, name, column string) []string {
	bare := table[strings.LastIndex(table, ".")+1:]
	drop := "DROP TRIGGER IF EXISTS " + bare + "_stint ON " + table
	if column != "" {
		return []string{hasColumn(table, column), drop, "CREATE TRIGGER " + bare + "_stint BEFORE INSERT OR UPDATE OR DELETE ON " + table +
			" FOR EACH ROW EXECUTE FUNCTION {f}_protect('', '" + column + "')"}
	}
	return []string{drop, "CREATE TRIGGER " + bare + "_stint BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON " + table +
		" FOR EACH STATEMENT EXECUTE FUNCTION {f}_protect(" + name + ")"}
}

// hasColumn fails where the table has no such column. MariaDB refuses the trigger
// then; PostgreSQL would take it, and the trigger then refuse every write. The
// trigger looks a column up as it is spelled here, capital letters and all.
func hasColumn(table, column string) string {
	return "DO $stint$ BEGIN IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = '" + table + "'::regclass AND attname = '" + column +
		"' AND attnum > 0 AND NOT attisdropped) THEN RAISE EXCEPTION 'table " + table + " has no column \"" + column + "\"' USING ERRCODE = '42703'; END IF; END $stint$"
}

func protectMaria(table, name, column string) (all []string) {
	trigger := func(suffix, on, arg string) {
		all = append(all, "CREATE OR REPLACE TRIGGER "+table+"_stint_"+suffix+" BEFORE "+on+" ON "+table+" FOR EACH ROW CALL {f}_protect("+arg+")")
	}
	before := strings.ReplaceAll(name, `\`, `\\`)
	after := before
	if column != "" {
		before, after = "OLD."+column, "NEW."+column
	}
	trigger("insert", "INSERT", after)
	trigger("update", "UPDATE", after)
	trigger("delete", "DELETE", before)
	if column != "" { // an update may take a row from one fence to another
		trigger("update_from", "UPDATE", before)
	}
	return all
}
