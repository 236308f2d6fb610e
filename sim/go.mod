module github.com/stint-dev/stint/sim

go 1.26.0

require (
	github.com/stint-dev/stint v0.0.0
	go.etcd.io/raft/v3 v3.7.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	golang.org/x/sys v0.50.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace github.com/stint-dev/stint => ../
