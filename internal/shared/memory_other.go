//go:build !linux

package shared

import "errors"

// memory is lent only on Linux.
type memory struct{ bytes []byte }

var errNoMemory = errors.New("shared memory is supported only on Linux")

func newMemory(int) (*memory, error)   { return nil, errNoMemory }
func (m *memory) reader() (int, error) { return -1, errNoMemory }
func (m *memory) held() bool           { return false }
func (m *memory) unmap()               {}
func (m *memory) close()               {}
func closeDescriptor(int)              {}
func probe() error                     { return errNoMemory }
func mostDescriptors() int             { return 0 }
