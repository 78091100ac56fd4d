// Package memory measures what code under test allocates.
package memory

import "runtime"

// Allocated returns the bytes that do allocates.
func Allocated(do func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	do()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}
