// Command etcdmember is a member of an etcdcluster that is built by itself,
// because it is built differently than the program that starts it.
package main

import (
	"fmt"

	"github.com/stint-dev/stint/lab/etcdcluster"
)

func main() {
	etcdcluster.Main() // does not return in a member's process
	fmt.Println("etcdmember is started by an etcdcluster only")
}
