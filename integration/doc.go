// Package integration tests the whole system through its public interfaces: the real binary against
// a directory, MinIO and versitygw, behind a real caching proxy, with the commands of the README
// and the docs. It is a separate module, so that dependencies of the tests stay out of the
// gateway's module.
package integration
