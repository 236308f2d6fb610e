module github.com/stint-dev/stint/bench

go 1.26.0

require (
	github.com/ncruces/go-sqlite3 v0.37.0
	github.com/stint-dev/stint v0.0.0
	github.com/stint-dev/stint/backends/sqlite v0.0.0
	golang.org/x/sys v0.50.0
	modernc.org/sqlite v1.62.0
)

require (
	github.com/dustin/go-humanize v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-sqlite3-wasm/v6 v6.5.35401 // indirect
	github.com/ncruces/go-strftime v1.1.0 // indirect
	github.com/ncruces/julianday v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	modernc.org/libc v1.80.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace github.com/stint-dev/stint => ../

replace github.com/stint-dev/stint/backends/sqlite => ../backends/sqlite
