//go:build !race

package etcdtests

// raceDetector: these tests are built without it.
const raceDetector = false
