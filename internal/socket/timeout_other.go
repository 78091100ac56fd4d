//go:build !linux

package socket

import (
	"net"
	"time"
)

// setUserTimeout does nothing where the kernel has no such limit: the write deadline remains.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
