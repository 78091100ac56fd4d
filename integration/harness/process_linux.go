package harness

import "syscall"

// ChildAttributes makes the kernel kill children whose parent died without cleaning up.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
