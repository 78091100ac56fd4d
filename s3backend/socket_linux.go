package s3backend

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// userTimeout is how many milliseconds what was sent may stay unacknowledged: keep-alive
// probes do not find a dead peer while bytes are on their way to it.
const userTimeout = 30_000

func setUserTimeout(_, _ string, c syscall.RawConn) error {
	var set error
	err := c.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeout)
	})
	if err != nil {
		return err
	}
	return set
}
