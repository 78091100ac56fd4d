// Package sharedmemory_test lets many readers on one machine read batches in shared memory. Readers
// are killed, stopped and disconnected, and some release nothing. No reader sees a wrong byte or
// another dataset's bytes, and at the end the gateway holds nothing for them.
package sharedmemory_test
