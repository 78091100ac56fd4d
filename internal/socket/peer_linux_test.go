package socket

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// With peerVariable set, the test program connects to that socket instead of running tests. With
// leaveVariable set it ends at once, while a child process keeps the connection.
const (
	peerVariable  = "MILLRACE_TEST_CONNECTS_TO"
	leaveVariable = "MILLRACE_TEST_LEAVES"
)

func TestMain(m *testing.M) {
	at := os.Getenv(peerVariable)
	if at == "" {
		os.Exit(m.Run())
	}
	c, err := net.Dial("unix", at)
	if err != nil {
		panic(err)
	}
	if os.Getenv(leaveVariable) != "" {
		file, err := c.(*net.UnixConn).File()
		if err != nil {
			panic(err)
		}
		keeper := exec.Command("cat")
		keeper.Stdin = file
		if err := keeper.Start(); err != nil {
			panic(err)
		}
		return
	}
	_, _ = c.Read(make([]byte, 1)) // waits until the test closes the connection
}

// TestUID_OnlyOfProvenProcesses: the uid counts only for a process that is alive and in the test's
// own namespaces.
func TestUID_OnlyOfProvenProcesses(t *testing.T) {
	root := os.Geteuid() == 0
	inside := func(flags uintptr) syscall.SysProcAttr {
		own := []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		group := []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
		return syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | flags, UidMappings: own, GidMappings: group}
	}
	for _, c := range []struct {
		name      string
		how       syscall.SysProcAttr
		needsRoot bool
		leaves    bool
		uid       int // -1: unproved
	}{
		{name: "the same user", uid: os.Geteuid()},
		{name: "another user", how: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}, needsRoot: true, uid: 4711},
		{name: "another user namespace", how: inside(0), uid: -1},
		{name: "another user and PID namespace", how: inside(syscall.CLONE_NEWPID), uid: -1},
		{name: "another PID namespace", how: syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, needsRoot: true, uid: -1},
		{name: "a process that has ended", leaves: true, uid: -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.needsRoot && !root {
				t.Skip("needs root")
			}
			dir, err := os.MkdirTemp("", "m") // accessible to every user
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			at := filepath.Join(dir, "s")
			ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			for name, mode := range map[string]os.FileMode{dir: 0o755, at: 0o666} {
				if err := os.Chmod(name, mode); err != nil {
					t.Fatal(err)
				}
			}
			var said bytes.Buffer
			peer := exec.CommandContext(t.Context(), "/proc/self/exe")
			peer.Env, peer.SysProcAttr, peer.Stderr = []string{"PATH=" + os.Getenv("PATH"), peerVariable + "=" + at}, &c.how, &said
			if c.leaves {
				peer.Env = append(peer.Env, leaveVariable+"=1")
			}
			if err := peer.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := Limit(1, ln)[0].Accept()
			if err != nil {
				t.Fatal(err)
			}
			if c.leaves {
				if err := unix.Waitid(unix.P_PID, peer.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil { // the process stays a zombie, so its number is not reused
					t.Fatal(err)
				}
				if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Read(make([]byte, 1)); !os.IsTimeout(err) {
					t.Fatalf("got %v, want a connection that is still open", err)
				}
			}
			local := LocalOf(Keep(t.Context(), conn))
			for range 2 { // a second call returns the same result
				uid, ok := local.UID()
				if ok != (c.uid >= 0) || int(uid) != max(0, c.uid) {
					t.Errorf("got %d, %v, want %d", uid, ok, c.uid)
				}
			}
			conn.Close()
			if err := peer.Wait(); err != nil {
				t.Fatal(err, said.String())
			}
		})
	}
}
