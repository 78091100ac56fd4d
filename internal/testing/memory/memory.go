// Package memory measures the allocations of code under test.
package memory

import "runtime"

// Allocated returns the number of bytes that a call of do allocates.
func Allocated(do func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	do()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}
