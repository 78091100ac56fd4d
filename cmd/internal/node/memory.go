package node

import (
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// UsableMemory returns the number of bytes that this process may use: the machine's memory, or the
// limit of its control group if that is lower.
func UsableMemory() int64 { return min(physicalMemory(), groupLimit()) }

// noLimit means that a control group does not limit memory.
const noLimit = math.MaxInt64

// cgroupLimit returns the lowest memory limit among the control groups of a process, version 2 or
// 1. root is the root of the file system.
func cgroupLimit(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return noLimit
	}
	limit := int64(noLimit)
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "": // version 2 has a single hierarchy
			limit = min(limit, walkUp(root, "sys/fs/cgroup", parts[2], "memory.max"))
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			limit = min(limit, walkUp(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"))
		}
	}
	return limit
}

// walkUp returns the lowest limit of a group and its parents. Inside a container the path is that
// of the host and does not exist, but the file of the root group does.
func walkUp(root fs.FS, base, group, file string) int64 {
	limit := int64(noLimit)
	for g := path.Clean("/" + group); ; g = path.Dir(g) {
		if text, err := fs.ReadFile(root, path.Join(base, g, file)); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
		if g == "/" {
			return limit
		}
	}
}

// DefaultCacheSize returns a quarter of the memory, in whole MiB for readability.
func DefaultCacheSize(memory int64) int64 {
	return max(memory/4>>20, 64) << 20
}

// limitHeap sets the soft limit of Go's heap to nine tenths of the memory minus the cache, which is
// outside the heap. The minimum is a quarter of the memory. Below it the collector would run
// constantly.
func limitHeap(memory, cache int64) { debug.SetMemoryLimit(heapLimit(memory, cache)) }

func heapLimit(memory, cache int64) int64 { return max(memory/10*9-cache, memory/4) }
