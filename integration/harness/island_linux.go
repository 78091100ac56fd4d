package harness

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// NewIsland creates an empty island. It requires root, and ip and tc of iproute2.
func NewIsland(t testing.TB) *Island {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("make a network: only root may; run this test as root, in a container say: nothing outside of its own networks changes")
	}
	for _, tool := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("find %s: %v; run make deps, or install iproute2", tool, err)
		}
	}
	i := new(Island)
	i.hub = &Node{Name: "switch", island: i, space: newSpace(t)}
	i.hub.command(t, "ip", "link", "add", "switch", "type", "bridge")
	i.hub.command(t, "ip", "link", "set", "switch", "up")
	return i
}

// Node adds a machine. rate limits its link in each direction, in the notation of tc (200mbit);
// empty: no limit.
func (i *Island) Node(t testing.TB, name, rate string) *Node {
	t.Helper()
	number := len(i.nodes) + 1
	n := &Node{
		Name: name, IP: fmt.Sprintf("10.77.0.%d", number), island: i, port: fmt.Sprintf("port%d", number),
		mac: fmt.Sprintf("02:77:00:00:00:%02x", number), space: newSpace(t),
	}
	n.http = &http.Client{Transport: n.Transport()}
	t.Cleanup(n.http.CloseIdleConnections)
	i.nodes = append(i.nodes, n)
	there := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.space.Fd())
	i.hub.command(t, "ip", "link", "add", n.port, "type", "veth", "peer", "name", "eth0", "address", n.mac, "netns", there)
	i.hub.command(t, "ip", "link", "set", n.port, "master", "switch", "up")
	n.command(t, "ip", "link", "set", "lo", "up")
	n.command(t, "ip", "addr", "add", n.IP+"/24", "dev", "eth0")
	n.command(t, "ip", "link", "set", "eth0", "up")
	if rate != "" {
		shape := []string{"root", "tbf", "rate", rate, "burst", "256kb", "latency", "200ms"}
		n.command(t, "tc", append([]string{"qdisc", "add", "dev", "eth0"}, shape...)...)
		i.hub.command(t, "tc", append([]string{"qdisc", "add", "dev", n.port}, shape...)...)
	}
	return n
}

// Narrow limits the link of a node without a rate, for epochs of about a second. A burst is at most
// 32 KiB, and bytes may queue for 200 ms: at 30 ms, TCP lost so many packets that it reached half
// to three quarters of the rate.
func (n *Node) Narrow(t testing.TB, rate string) {
	t.Helper()
	for at, device := range map[*Node]string{n: "eth0", n.island.hub: n.port} {
		at.command(t, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate, "burst", "32kb", "latency", "200ms")
	}
}

// Unplug takes the node's link down: the node and the others, including the store and clients,
// cannot reach each other.
func (n *Node) Unplug(t testing.TB) {
	t.Helper()
	n.island.hub.command(t, "ip", "link", "set", n.port, "down")
}

// Plug brings the link up again.
func (n *Node) Plug(t testing.TB) {
	t.Helper()
	n.island.hub.command(t, "ip", "link", "set", n.port, "up")
}

// Lose silently drops all packets from the node to the others: they go to a MAC address that does
// not exist. Packets from the others still arrive.
func (n *Node) Lose(t testing.TB, others ...*Node) {
	t.Helper()
	for _, o := range others {
		n.command(t, "ip", "neigh", "replace", o.IP, "lladdr", "02:77:00:00:00:00", "nud", "permanent", "dev", "eth0")
	}
}

// Find ends the effect of Lose.
func (n *Node) Find(t testing.TB, others ...*Node) {
	t.Helper()
	for _, o := range others {
		n.command(t, "ip", "neigh", "replace", o.IP, "lladdr", o.mac, "nud", "permanent", "dev", "eth0")
	}
}

func (n *Node) command(t testing.TB, name string, args ...string) {
	t.Helper()
	err := n.Do(func() error {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("on %s: %s %s: %w: %s", n.Name, name, strings.Join(args, " "), err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// newSpace creates a network namespace, which lasts as long as its file or a process in it.
func newSpace(t testing.TB) *os.File {
	t.Helper()
	var space *os.File
	err := aside(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		space, err = os.Open(ownSpace)
		return err
	})
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() { space.Close() })
	return space
}

func inside(space *os.File, do func() error) error {
	return aside(func() error {
		if err := enter(space); err != nil {
			return err
		}
		return do()
	})
}

const ownSpace = "/proc/thread-self/ns/net"

// aside runs do in a thread that then returns to its original network. If a thread cannot return,
// the runtime discards it with its goroutine.
func aside(do func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(ownSpace)
	if err != nil {
		return err
	}
	defer home.Close()
	err = do()
	if back := enter(home); back != nil {
		panic(back) // the thread stays locked, so that no other goroutine gets it
	}
	runtime.UnlockOSThread()
	return err
}

func enter(space *os.File) error {
	return os.NewSyscallError("setns", unix.Setns(int(space.Fd()), unix.CLONE_NEWNET))
}
