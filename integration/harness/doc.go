// Package harness runs the system like its users: the millrace binary, a real MinIO and a real
// versitygw. They run as child processes on loopback ports, over temporary directories. Every
// process ends with the test that started it, however that test ends.
//
// The package does not contain the expected results; the tests in the neighboring packages do.
package harness
