// Package sharedmemory_test has many readers on one machine take batches as memory, and be killed, stopped, cut off and forgetful: none sees a
// wrong byte, none sees another's, and at the end the gateway holds nothing for them.
package sharedmemory_test
