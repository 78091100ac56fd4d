//go:build linux

package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/shared"
)

const sharedType = "application/vnd.millrace.shared"

// neighbour is a client at the gateway's Unix socket, with one connection.
type neighbour struct {
	t           *testing.T
	conn        *net.UnixConn
	in          *bufio.Reader
	descriptors []int // received descriptors, oldest first
	segments    map[string][]byte
}

// Read records the descriptors that accompany the bytes.
func (n *neighbour) Read(p []byte) (int, error) {
	control := make([]byte, 256)
	got, m, _, _, err := n.conn.ReadMsgUnix(p, control)
	if err != nil {
		return got, err
	}
	messages, _ := syscall.ParseSocketControlMessage(control[:m])
	for i := range messages {
		all, _ := syscall.ParseUnixRights(&messages[i])
		n.descriptors = append(n.descriptors, all...)
	}
	if got == 0 {
		return 0, io.EOF
	}
	return got, nil
}

// sharedAnswer is a response to a neighbour.
type sharedAnswer struct {
	*http.Response
	body []byte
	said map[string]string // members of Millrace-Shared; nil: no such header
	data []byte            // samples in memory
}

// get sends a request for a path, with additional header lines, each with its line end.
func (n *neighbour) get(method, path, lines string) sharedAnswer {
	n.t.Helper()
	if _, err := fmt.Fprintf(n.conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, path, lines); err != nil {
		n.t.Fatal(err)
	}
	resp, err := http.ReadResponse(n.in, &http.Request{Method: method})
	if err != nil {
		n.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	a := sharedAnswer{Response: resp, body: body}
	if text := resp.Header.Get("Millrace-Shared"); text != "" {
		a.said = map[string]string{}
		for _, m := range regexp.MustCompile(`([a-z]+)(?:=(\([\d ]*\)|\d+))?(?:, |$)`).FindAllStringSubmatch(text, -1) {
			a.said[m[1]] = m[2]
		}
		a.data = n.memory(a.said)
	}
	if len(n.descriptors) > 0 {
		n.t.Errorf("%s: got %d descriptors that no header announces", path, len(n.descriptors))
	}
	return a
}

// memory returns the samples that a header describes.
func (n *neighbour) memory(said map[string]string) []byte {
	n.t.Helper()
	size, err := strconv.Atoi(said["size"])
	if err != nil {
		n.t.Fatal(err)
	}
	if _, fresh := said["descriptor"]; fresh {
		if len(n.descriptors) != 1 {
			n.t.Fatalf("got %d descriptors, want 1", len(n.descriptors))
		}
		b, err := syscall.Mmap(n.descriptors[0], 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
		if err != nil {
			n.t.Fatal(err)
		}
		if err := syscall.Close(n.descriptors[0]); err != nil {
			n.t.Fatal(err)
		}
		n.descriptors, n.segments[said["segment"]] = nil, b
		n.t.Cleanup(func() { _ = syscall.Munmap(b) })
	}
	length, err := strconv.Atoi(said["length"])
	if err != nil {
		n.t.Fatal(err)
	}
	return n.segments[said["segment"]][:length]
}

// serveNeighbours serves samples to neighbours, which the returned function connects.
func serveNeighbours(t *testing.T, samples, meanSize int, total int64) (*rig, *shared.Pool, func() *neighbour) {
	t.Helper()
	var pool *shared.Pool
	r := newRig(t, samples, meanSize, func(cfg *gateway.Config) {
		cfg.Budget, cfg.LameDuck = budget.New(total, time.Second), time.Millisecond
		var err error
		if pool, err = shared.New(cfg.Budget); err != nil {
			t.Fatal(err)
		}
		cfg.Shared = pool
	})
	t.Cleanup(pool.Close) // after all connections are closed
	return r, pool, listenToNeighbours(t, r)
}

// listenToNeighbours also serves the rig at a Unix socket, and returns a function that connects to
// it.
func listenToNeighbours(t *testing.T, r *rig) (connect func() *neighbour) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- gateway.NewServer(r.gateway, gateway.ServerConfig{}).Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func() *neighbour {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		n := &neighbour{t: t, conn: conn.(*net.UnixConn), segments: map[string][]byte{}}
		n.in = bufio.NewReader(n)
		return n
	}
}

// TestShared_IsTheBody: table and memory together are the body of the form, with the same headers.
// The form arrow has no table.
func TestShared_IsTheBody(t *testing.T) {
	_, _, connect := serveNeighbours(t, 60, 16<<10, 64<<20)
	n := connect()
	for _, query := range []string{
		"?format=framed", "?format=framed&table=keys,parts", "?format=framed&fields=bin", "?format=framed&world_size=2&rank=1",
		"?format=framed&batch_size=60", "?format=arrow", "?format=arrow&fields=bin",
	} {
		want := n.get("GET", "/epoch/1/batch/0"+query, "Accept: application/vnd.millrace.framed\r\n")
		got := n.get("GET", "/epoch/1/batch/0"+query, "Accept: text/html;q=0.1, "+sharedType+"\r\n")
		if got.said == nil || got.Header.Get("Content-Type") != sharedType || int64(len(got.body)) != got.ContentLength {
			t.Errorf("%s: got %s with %d bytes, %v", query, got.Header.Get("Content-Type"), len(got.body), got.said)
			continue
		}
		if whole := append(got.body, got.data...); !bytes.Equal(whole, want.body) {
			t.Errorf("%s: got %d bytes of table and memory, want the %d of the form", query, len(whole), len(want.body))
		}
		table := uint32(0)
		if bytes.HasPrefix(want.body, []byte("MLRF")) {
			table = binary.LittleEndian.Uint32(want.body[28:])
		}
		if int(table) != len(got.body) {
			t.Errorf("%s: got a body of %d bytes, want the table alone, %d", query, len(got.body), table)
		}
		for _, h := range []http.Header{want.Header, got.Header} {
			for _, own := range []string{"Content-Type", "Content-Length", "Millrace-Shared", "X-Request-Id", "Server-Timing", "Date"} {
				h.Del(own)
			}
		}
		if fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
			t.Errorf("%s: got\n%v, want\n%v", query, got.Header, want.Header)
		}
		n.get("GET", "/healthz", "Millrace-Release: "+got.said["lease"]+"\r\n")
		again := n.get("GET", "/epoch/1/batch/0"+query, "Accept: "+sharedType+"\r\n")
		if _, fresh := again.said["descriptor"]; fresh || again.said["segment"] != got.said["segment"] || again.said["lease"] == got.said["lease"] {
			t.Errorf("%s: got %v after the release of %v", query, again.said, got.said)
		}
		n.get("GET", "/healthz", "Millrace-Release: "+again.said["lease"]+"\r\n")
	}
}

// TestShared_ClassesFollowTheTable: the body contains only the table, and not the classes that the
// gateway writes after it.
func TestShared_ClassesFollowTheTable(t *testing.T) {
	objects := writeFiles().objects
	for key := range objects {
		objects[key] = make([]byte, 16<<10)
	}
	var pool *shared.Pool
	r := serveObjects(t, objects, func(cfg *gateway.Config) {
		var err error
		if pool, err = shared.New(cfg.Budget); err != nil {
			t.Fatal(err)
		}
		cfg.Shared = pool
	})
	t.Cleanup(pool.Close)
	n := listenToNeighbours(t, r)()
	for _, query := range []string{"?format=framed&fields=cls,jpg", "?format=framed&table=keys,parts"} {
		want := n.get("GET", "/epoch/1/batch/0"+query, "Accept: application/vnd.millrace.framed\r\n")
		got := n.get("GET", "/epoch/1/batch/0"+query, "Accept: "+sharedType+"\r\n")
		if table := binary.LittleEndian.Uint32(want.body[28:]); got.said == nil || int(table) != len(got.body) {
			t.Errorf("%s: got a body of %d bytes, want the table alone, %d", query, len(got.body), table)
		}
		if whole := append(got.body, got.data...); !bytes.Equal(whole, want.body) {
			t.Errorf("%s: got %d bytes of table and memory, want the %d of the framed form", query, len(whole), len(want.body))
		}
	}
}

// TestBytesWhereMemoryIsNotAskedFor: the gateway sends bytes if the client does not request shared
// memory, or if sharing does not pay.
func TestBytesWhereMemoryIsNotAskedFor(t *testing.T) {
	r, pool, connect := serveNeighbours(t, 60, 16<<10, 64<<20)
	n := connect()
	whole := n.get("GET", "/epoch/0/batch/0?format=framed", "")
	accept := "Accept: " + sharedType + "\r\n"
	for name, c := range map[string]struct {
		method, query, lines string
		status               int
	}{
		"no Accept":         {"GET", "?format=framed", "", 200},
		"all types":         {"GET", "?format=framed", "Accept: */*\r\n", 200},
		"a range of types":  {"GET", "?format=framed", "Accept: application/*\r\n", 200},
		"refused":           {"GET", "?format=framed", "Accept: " + sharedType + ";q=0, */*\r\n", 200},
		"another form":      {"GET", "?format=tar", accept, 200},
		"HEAD":              {"HEAD", "?format=framed", accept, 200},
		"a part":            {"GET", "?format=framed", accept + "Range: bytes=100-\r\n", 206},
		"a small batch":     {"GET", "?format=framed&batch_size=2", accept, 200},
		"no samples":        {"GET", "?format=framed&batch_size=2&world_size=4&rank=0", accept, 200},
		"it has it":         {"GET", "?format=framed", accept + "If-None-Match: " + whole.Header.Get("ETag") + "\r\n", 304},
		"past the end":      {"GET", "?format=framed&batch_size=x", accept, 400},
		"no lease to let":   {"GET", "?format=framed", "Millrace-Release: 1, -1, x, 99999999999999999999,,\r\n", 200},
		"releases nonsense": {"GET", "?format=framed", "Millrace-Release: " + strings.Repeat("1,", 9000) + "\r\n", 200},
	} {
		a := n.get(c.method, "/epoch/0/batch/0"+c.query, c.lines)
		if a.StatusCode != c.status || a.said != nil || a.Header.Get("Content-Type") == sharedType {
			t.Errorf("%s: got %d, %s, %v; want %d and bytes", name, a.StatusCode, a.Header.Get("Content-Type"), a.said, c.status)
		}
	}
	if a := r.do("GET", "/epoch/0/batch/0", "Accept: "+sharedType); a.StatusCode != 200 || !bytes.Equal(a.body, whole.body) {
		t.Errorf("over TCP: got %d and %d bytes, want the framed form", a.StatusCode, len(a.body))
	}
	if s := pool.Stats(); s.Leases != 0 || s.Segments != 0 {
		t.Errorf("got %+v, want nothing lent", s)
	}
}

// TestBytesWhereThereIsNoMemory: without memory the gateway sends bytes and never an error, and
// shared memory does not change.
func TestBytesWhereThereIsNoMemory(t *testing.T) {
	r, pool, connect := serveNeighbours(t, 60, 16<<10, 3<<20)
	n := connect()
	var held [][]byte
	var copies [][]byte
	refused := 0
	for i := range 12 {
		a := n.get("GET", fmt.Sprintf("/epoch/0/batch/%d?format=framed", i%3), "Accept: "+sharedType+"\r\n")
		switch {
		case a.StatusCode != http.StatusOK:
			t.Fatalf("batch %d: got %d, %s", i, a.StatusCode, a.body)
		case a.said != nil:
			held, copies = append(held, a.data), append(copies, bytes.Clone(a.data))
		default:
			refused++
			if !bytes.HasPrefix(a.body, []byte("MLRF")) || a.Header.Get("Content-Type") != "application/vnd.millrace.framed" {
				t.Errorf("batch %d: got %s", i, a.Header.Get("Content-Type"))
			}
		}
	}
	if len(held) == 0 || refused == 0 {
		t.Fatalf("got %d batches in memory and %d as bytes, want some of each: %+v", len(held), refused, pool.Stats())
	}
	for i := range held {
		if !bytes.Equal(held[i], copies[i]) {
			t.Errorf("batch %d has changed while it was held", i)
		}
	}
	if a := r.do("GET", "/epoch/0/batch/0"); a.StatusCode != 200 {
		t.Errorf("somebody else got %d", a.StatusCode)
	}
}

// TestDescriptorsThatComeAreClosed: the gateway closes received descriptors, so that a reader
// cannot fill its table of files.
func TestDescriptorsThatComeAreClosed(t *testing.T) {
	_, _, connect := serveNeighbours(t, 60, 1<<10, 64<<20)
	n := connect()
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	read := os.NewFile(uintptr(pipe[0]), "pipe")
	defer read.Close()
	if _, _, err := n.conn.WriteMsgUnix([]byte("GET /healthz HT"), syscall.UnixRights(pipe[1], pipe[1]), nil); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Close(pipe[1]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.conn.WriteMsgUnix([]byte("TP/1.1\r\nHost: localhost\r\n\r\n"), nil, nil); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(n.in, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", resp, err)
	}
	resp.Body.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(read)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the gateway keeps a descriptor that it was sent")
	}
}
