// Package sqlservers gives tests and measurements databases on real servers: a
// PostgreSQL and a MariaDB for the whole test binary, with a database of its own
// for each test, servers of a test's own that it may kill, a pooler, and gates
// that cut a connection around a COMMIT.
//
//	func TestMain(m *testing.M) {
//		goleak.VerifyTestMain(sqlservers.Closing(m))
//	}
//
//	db := sqlservers.PostgreSQL(t).Database(t, sqlservers.Options{Isolation: "serializable"})
//	pool, err := sql.Open(db.Driver(), db.DSN())
//
// The user of a database owns it, and nothing else: it is no superuser, because
// neither are the users of the programs that stint protects.
package sqlservers
