//go:build !linux

package harness

import "syscall"

// ChildAttributes is empty where the kernel has no such feature.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
