package socket

import (
	"bytes"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerOf returns the uid of the process that has connected. It has none where the kernel cannot prove that the number means the same user
// here and there: the process is in another user or PID namespace, has ended, or cannot be looked at.
func peerOf(c *net.UnixConn) (uid uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		var who *unix.Ucred
		if who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		// The number of a process may be another's by now: only the kernel's own descriptor of it is sure to mean the one that has
		// connected. Linux has it since 6.5. To open one by the number would let a process of a container lend its number to others.
		var process int
		if process, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err != nil {
			return
		}
		defer unix.Close(process)
		uid, ok = who.Uid, who.Pid > 0 && isNeighbour(process, strconv.Itoa(int(who.Pid)))
	})
	if err != nil || !ok {
		return 0, false
	}
	return uid, true
}

// isNeighbour reports whether a process lives in the user and PID namespaces of this one. The links in /proc/PID/ns would say so, but
// not to a gateway of another user.
func isNeighbour(process int, number string) bool {
	// NSpid lists the number that the process has in each PID namespace, from that of /proc down to its own. A process of this namespace
	// has one number.
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(process))
	if err != nil || !bytes.Contains(info, []byte("\nNSpid:\t"+number+"\n")) {
		return false
	}
	// What each number of a user stands for. Only root can make a namespace with the map of its parent, and the numbers mean the same then.
	own, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || len(own) == 0 {
		return false
	}
	theirs, err := os.ReadFile("/proc/" + number + "/uid_map")
	if err != nil || !bytes.Equal(own, theirs) {
		return false
	}
	ended, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
	return err == nil && ended == 0 // so the files above were its own
}
