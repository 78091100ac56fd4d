package socket

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout limits the time for which bytes may be unacknowledged. It detects a vanished peer
// while there are bytes to send, since the kernel then sends no keep-alive probes.
func setUserTimeout(c *net.TCPConn, d time.Duration) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return set
}
