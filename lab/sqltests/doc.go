// Package sqltests tests the fences in SQL databases on real servers. It has
// tests only.
package sqltests
