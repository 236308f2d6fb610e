module github.com/stint-dev/stint/backends/sqlite

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/stint-dev/stint v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/stint-dev/stint => ../..
