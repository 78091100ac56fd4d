package node

import (
	"os"

	"golang.org/x/sys/unix"
)

func groupLimit() int64 { return cgroupLimit(os.DirFS("/")) }

func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return noLimit
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
}
