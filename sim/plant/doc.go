// Package plant puts bugs into the protocol machines, one by one, and looks
// whether the scenarios or the explorer catch them. It is all tests: make plant
// plants every bug, and the ordinary run of the tests two of them. The files of
// the work tree are not touched: the compiler is told to read others in their
// place.
package plant
