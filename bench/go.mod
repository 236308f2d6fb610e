module github.com/stint-dev/stint/bench

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/stint-dev/stint v0.0.0
	github.com/stint-dev/stint/backends/sqlite v0.0.0
	modernc.org/sqlite v1.62.0
)

replace github.com/stint-dev/stint => ../

replace github.com/stint-dev/stint/backends/sqlite => ../backends/sqlite
