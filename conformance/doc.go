// Package conformance holds what checks the house from outside: the rules its
// packages keep among each other (the tests of this package), the stand-in
// model (conformance/model) and the end-to-end tests that put the built binary
// between independent clients and real agents (conformance/e2e).
//
// It imports nothing of ours. Only cmd, and tests, may import it.
package conformance
