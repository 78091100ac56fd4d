package socket

import (
	"bytes"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// peerOf returns the uid of the process that has connected. ok is false if the kernel cannot prove
// that the number means the same user in both processes: the other process is in another user or
// PID namespace, has ended, or cannot be inspected.
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
		// The process's number may belong to another process by now. Only the kernel's own
		// pidfd (Linux 6.5 and later) certainly refers to the process that connected. If
		// the pidfd were opened by number, a process of a container could use the number of
		// another one.
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

// isNeighbour reports whether a process is in the user and PID namespaces of this process. The
// links in /proc/PID/ns would show that, but a gateway of another user cannot read them.
func isNeighbour(process int, number string) bool {
	// NSpid lists the number of the process in each PID namespace, from the namespace of /proc down
	// to its own. A process of this namespace has one number.
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(process))
	if err != nil || !bytes.Contains(info, []byte("\nNSpid:\t"+number+"\n")) {
		return false
	}
	// uid_map gives the meaning of each user number. Only root can make a namespace with the
	// same map as its parent, and there the numbers mean the same.
	own, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || len(own) == 0 {
		return false
	}
	theirs, err := os.ReadFile("/proc/" + number + "/uid_map")
	if err != nil || !bytes.Equal(own, theirs) {
		return false
	}
	ended, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
	return err == nil && ended == 0 // the process is still alive, so the files above were its own
}
