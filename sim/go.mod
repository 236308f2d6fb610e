module github.com/stint-dev/stint/sim

go 1.26.0

require github.com/stint-dev/stint v0.0.0

replace github.com/stint-dev/stint => ../
