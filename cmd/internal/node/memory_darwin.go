package node

import (
	"golang.org/x/sys/unix"
)

// groupLimit returns no limit, since macOS has no control groups.
func groupLimit() int64 { return noLimit }

func physicalMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return noLimit
	}
	return int64(min(n, 1<<62))
}
