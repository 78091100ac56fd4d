package client

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"syscall"
)

// canShare reports whether this system supports shared memory.
const canShare = true

const (
	getSeals   = 1034             // F_GET_SEALS
	wantSeals  = 0x2 | 0x4 | 0x10 // F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE
	controlLen = 64               // buffer for control messages: larger than one descriptor needs
)

// receive reads bytes and the descriptors that accompany them.
func receive(c *net.UnixConn, p []byte) (got int, descriptors []int, err error) {
	var control [controlLen]byte
	got, length, flags, _, err := c.ReadMsgUnix(p, control[:])
	if err != nil || length == 0 {
		if errors.Is(err, io.EOF) {
			err = io.EOF // net wraps io.EOF, and net/http compares it with ==
		}
		return max(got, 0), nil, err // got is -1 with an error
	}
	messages, err := syscall.ParseSocketControlMessage(control[:length])
	for i := range messages {
		all, _ := syscall.ParseUnixRights(&messages[i]) // none in other kinds of messages
		descriptors = append(descriptors, all...)
	}
	if err == nil && flags&syscall.MSG_CTRUNC != 0 {
		err = fmt.Errorf("got more than one file descriptor: %w", ErrProtocol)
	}
	return got, descriptors, err
}

func closeDescriptor(d int) { _ = syscall.Close(d) }

// mapMemory maps memory read-only. It refuses memory of another size, or memory without seals
// against resizing and writing by other processes.
func mapMemory(descriptor int, size int64) ([]byte, error) {
	var is syscall.Stat_t
	if err := syscall.Fstat(descriptor, &is); err != nil {
		return nil, err
	}
	if is.Mode&syscall.S_IFMT != syscall.S_IFREG || is.Size != size || size > math.MaxInt {
		return nil, fmt.Errorf("got %d bytes, want %d: %w", is.Size, size, ErrProtocol)
	}
	seals, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(descriptor), getSeals, 0)
	if errno != 0 || seals&wantSeals != wantSeals {
		return nil, fmt.Errorf("it is not sealed: %w", ErrProtocol)
	}
	b, err := syscall.Mmap(descriptor, 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED|syscall.MAP_POPULATE)
	if err != nil {
		return nil, err
	}
	if err := syscall.Madvise(b, syscall.MADV_DONTFORK); err != nil { // a child process must not see later batches
		unmapMemory(b)
		return nil, err
	}
	return b, nil
}

func unmapMemory(b []byte) { _ = syscall.Munmap(b) }
