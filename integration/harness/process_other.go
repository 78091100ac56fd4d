//go:build !linux

package harness

import "syscall"

// ChildAttributes returns no attributes, because this kernel has no such feature.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
