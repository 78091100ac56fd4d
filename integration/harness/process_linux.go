package harness

import "syscall"

// ChildAttributes lets the kernel kill children whose parent died without cleaning up.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
