package harness

import "syscall"

// childAttributes lets the kernel kill children whose parent died without cleaning up.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
