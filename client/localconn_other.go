//go:build !linux

package client

import (
	"errors"
	"net"
)

// canShare reports whether this system supports shared memory. The functions below are never
// called.
const canShare = false

func receive(c *net.UnixConn, p []byte) (int, []int, error) {
	n, err := c.Read(p)
	return n, nil, err
}

func closeDescriptor(int) {}

func mapMemory(int, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapMemory([]byte) {}
