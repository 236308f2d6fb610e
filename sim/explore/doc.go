// Package explore looks for interleavings that break a promise.
//
// A seed draws a plan: settings and a list of faults, all of it data. Run builds
// the plan's world, lets it go, and watches the log with checkers that know one
// promise each. What breaks one is shrunk by leaving out faults, written down as
// a scenario, and played again from it. Search does the same to small worlds,
// but visits every order of events in place of random ones.
package explore
