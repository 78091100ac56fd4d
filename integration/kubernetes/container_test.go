//go:build linux

package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/millrace-data/millrace/integration/harness"
)

// containerVariable is the environment variable with which this program becomes a container,
// described in JSON.
const containerVariable = "TEST_CONTAINER"

// container is a process with a separate root directory, which contains only the bound files.
type container struct {
	Root     string // an empty directory that becomes the mount point of the root
	Binds    []bind
	ReadOnly bool // applies to the root, but not to the mounts
	Hostname string
	UID, GID int
	Groups   []int
	Dir      string
	Command  []string
	Env      []string
}

// bind mounts a file or directory of this machine at a path of the container.
type bind struct {
	From, To string
	ReadOnly bool
}

// becomeContainer replaces this process by that of a container. It does not return.
func becomeContainer(plan string) {
	var c container
	err := json.Unmarshal([]byte(plan), &c)
	if err == nil {
		err = c.enter()
	}
	fmt.Fprintln(os.Stderr, "start container:", err)
	os.Exit(128)
}

// enter returns only in case of an error.
func (c *container) enter() error {
	if err := c.makeRoot(); err != nil {
		return err
	}
	if err := errors.Join(
		unix.Sethostname([]byte(c.Hostname)), unix.Chroot(c.Root), os.Chdir(c.Dir),
		syscall.Setgroups(c.Groups), syscall.Setgid(c.GID), syscall.Setuid(c.UID),
	); err != nil {
		return err
	}
	os.Clearenv()
	for _, pair := range c.Env { // if a name occurs twice, the last value applies
		name, value, _ := strings.Cut(pair, "=")
		os.Setenv(name, value)
	}
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, c.Command, os.Environ()))
}

func (c *container) makeRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts apart: %w", err)
	}
	if err := unix.Mount("tmpfs", c.Root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, dir := range []string{"proc", "tmp"} {
		if err := os.Mkdir(filepath.Join(c.Root, dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(c.Root, "tmp"), 0o777|os.ModeSticky); err != nil {
		return err
	}
	if err := unix.Mount("proc", filepath.Join(c.Root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	shared := filepath.Join(c.Root, "dev", "shm")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("shm", shared, "tmpfs", 0, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	for _, b := range c.Binds {
		if err := b.mount(c.Root); err != nil {
			return fmt.Errorf("show %s at %s: %w", b.From, b.To, err)
		}
	}
	if c.ReadOnly {
		return unix.Mount("", c.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	return nil
}

func (b bind) mount(root string) error {
	info, err := os.Stat(b.From)
	if err != nil {
		return err
	}
	to := filepath.Join(root, b.To)
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		var f *os.File
		if f, err = os.OpenFile(to, os.O_CREATE, 0o644); err == nil {
			err = f.Close()
		}
	}
	if err == nil {
		err = unix.Mount(b.From, to, "", unix.MS_BIND|unix.MS_REC, "")
	}
	if err == nil && b.ReadOnly {
		err = unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	return err
}

// process is a started container.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
	log  *journal
}

// start runs the container on a node, with separate namespaces for mounts, processes and the host
// name.
func (c *container) start(at *harness.Node, log *journal) (*process, error) {
	plan, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command("/proc/self/exe"), done: make(chan struct{}), log: log}
	p.cmd.Env = []string{containerVariable + "=" + string(plan)}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS,
	}
	if err := at.Do(p.cmd.Start); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // ExitCode tells
		close(p.done)
	}()
	return p, nil
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exitCode returns the exit code of a process, like a container engine.
func (p *process) exitCode() int {
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// journal stores everything that the processes of a container have written.
type journal struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, p...)
	return len(p), nil
}

// writeFrom writes the bytes after the first n, and returns their number.
func (j *journal) writeFrom(n int, w io.Writer) (int, error) {
	j.mu.Lock()
	text := j.text[n:]
	j.mu.Unlock()
	return w.Write(text)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return string(j.text)
}
