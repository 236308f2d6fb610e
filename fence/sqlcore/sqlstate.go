package sqlcore

import (
	"errors"
	"reflect"
	"strings"
)

// sqlState is the five characters that the SQL standard gives to an error, from
// any driver that offers them as SQLState(): pgx, lib/pq.
func sqlState(err error) string {
	var s interface{ SQLState() string }
	if errors.As(err, &s) {
		return s.SQLState()
	}
	return ""
}

// errorNumber is the number of an error of MariaDB, zero if it has none.
// go-sql-driver keeps it in a field, which no interface reaches: so the field
// is looked for by its name, in every error that err wraps.
func errorNumber(err error) uint16 {
	if err == nil {
		return 0
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct {
		if f := v.Elem().FieldByName("Number"); f.IsValid() && f.Kind() == reflect.Uint16 {
			return uint16(f.Uint())
		}
	}
	switch w := err.(type) {
	case interface{ Unwrap() error }:
		return errorNumber(w.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range w.Unwrap() {
			if n := errorNumber(inner); n != 0 {
				return n
			}
		}
	}
	return 0
}

// postgresKind goes by SQLSTATE (PostgreSQL's manual, appendix A).
func postgresKind(err error) kind {
	switch s := sqlState(err); s {
	case "40001", "40P01": // serialization failure, deadlock
		return conflict
	case "55P03": // lock_timeout
		return timedOut
	case "25006": // read-only transaction
		return readOnly
	case "42P01", "42703", "3F000": // no table, no column, no schema
		return missing
	case "42501":
		return denied
	case "25P03", "25P04": // idle or transaction timeout: the session is gone
		return cut
	default:
		if strings.HasPrefix(s, "57P") || strings.HasPrefix(s, "08") {
			return cut
		}
	}
	return other
}

// mariaKind goes by the server's numbers (MariaDB's manual, "Error Codes").
func mariaKind(err error) kind {
	switch errorNumber(err) {
	case 1205, 3572: // lock wait timeout, NOWAIT
		return timedOut
	case 1969: // max_statement_time
		return tooLong
	case 1213, 1020: // deadlock; a row that changed since the snapshot
		return conflict
	case 1290, 1836: // --read-only
		return readOnly
	case 1146, 1054, 1049: // no table, no column, no database
		return missing
	case 1142, 1143, 1044, 1227, 1095, 1370:
		return denied
	case 1927, 1053, 1317, 1080: // killed, shutdown, interrupted, forced close
		return cut
	}
	return other
}
