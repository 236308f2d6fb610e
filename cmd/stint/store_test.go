package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"
)

// store FILE makes a SQLite database, as a user's own.
func store(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite3", "file:"+ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE invoices (id INTEGER)")
	ts.Check(err)
}

// row FILE NAME writes the fence row of a name, without its nonce and times.
func row(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite3", "file:"+ts.MkAbs(args[0])+"?mode=ro")
	ts.Check(err)
	defer db.Close()
	var fence, owner int64
	var state string
	err = db.QueryRowContext(context.Background(),
		"SELECT fence, state, owner FROM stint_fence WHERE name = ?", args[1]).Scan(&fence, &state, &owner)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "fence=%d state=%s owner=%d\n", fence, state, owner)
}
