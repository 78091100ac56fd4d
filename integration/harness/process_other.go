//go:build !linux

package harness

import "syscall"

// ChildAttributes is empty where the kernel knows no such thing.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
