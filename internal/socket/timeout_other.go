//go:build !linux

package socket

import (
	"net"
	"time"
)

// setUserTimeout does nothing if the kernel has no such limit. The write deadline remains.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
