// Command etcdmember is a member of an etcdcluster that is built by itself,
// because it is built differently than the program that starts it. By anybody
// else it is not to be started, and does nothing.
package main

import "github.com/stint-dev/stint/lab/etcdcluster"

func main() {
	etcdcluster.Main() // does not return in a member's process
}
