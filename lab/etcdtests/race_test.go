//go:build race

package etcdtests

// raceDetector: these tests are built with it.
const raceDetector = true
