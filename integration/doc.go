// Package integration tests the whole system through its front door: the real binary
// against a directory, MinIO and versitygw, behind a real caching proxy, with the
// commands of the README and the docs. It is a module of its own, so that what only tests need stays
// out of the gateway's.
package integration
