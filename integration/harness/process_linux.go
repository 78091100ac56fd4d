package harness

import "syscall"

// ChildAttributes returns attributes with which the kernel kills a child when its parent dies.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
