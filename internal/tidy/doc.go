// Package tidy holds the rules of the code base as tests: which package may
// import which, what the protocol core must not do, what no package may do, how
// long a function may be, and that the documents speak of things that exist.
//
// A rule is a function from source files to complaints. Each has two tests: the
// tree has none, and a small bad example has the expected one, so that a rule
// that has gone blind is noticed.
package tidy
