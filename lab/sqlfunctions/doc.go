// Package sqlfunctions tests what a fence in PostgreSQL or MariaDB gives beside
// InTx: its SQL functions from every language, triggers, tables of the user's
// own, migrations, and what happens to sessions that hold it up.
package sqlfunctions
