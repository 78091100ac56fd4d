// Package harness runs the system as its users do: the millrace binary, a real MinIO and
// a real versitygw as child processes on loopback ports, over temporary directories.
// Whatever it starts ends with the test that started it, however that test ends.
//
// Nothing here knows what a right answer is; the tests next door do.
package harness
