//go:build linux

package client_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// reply is a correct response of a gateway that shares memory. Tests change it to a false one.
type reply struct {
	samples []byte
	size    int64 // size of the memory
	seals   int
	passes  int    // number of descriptors sent
	pipe    bool   // the descriptors are of a pipe
	late    bool   // the descriptors arrive with the end of the body
	shared  string // Millrace-Shared, with %d for the segment's number
	table   []byte
	length  int // Content-Length
	crc     uint32
	cut     int // number of bytes sent, or if negative the number of bytes omitted at the end; 0: all are sent
}

const allSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE

// framedTable returns the table of count samples of n bytes each.
func framedTable(count, n int) []byte {
	table := append([]byte("MLRF"), make([]byte, 36+4*count)...)
	binary.LittleEndian.PutUint16(table[4:], 1)
	binary.LittleEndian.PutUint32(table[8:], uint32(count))
	binary.LittleEndian.PutUint32(table[28:], uint32(len(table)))
	binary.LittleEndian.PutUint64(table[32:], uint64(count*n))
	for i := range count {
		binary.LittleEndian.PutUint32(table[40+4*i:], uint32(n))
	}
	return table
}

func honest() *reply {
	r := &reply{samples: bytes.Repeat([]byte("sample"), 20000), size: 1 << 17, seals: allSeals, passes: 1, table: framedTable(2, 60000)}
	r.shared = "lease=%[1]d, segment=%[1]d, size=131072, length=120000, descriptor"
	r.length, r.crc = len(r.table), castagnoli(append(bytes.Clone(r.table), r.samples...))
	return r
}

// liar is a server at a Unix socket that sends false replies.
type liar struct {
	t     *testing.T
	lie   func(r *reply)
	mu    sync.Mutex
	asked int
	heads []http.Header // headers of the requests
	lines []string      // first lines of the requests
}

func (l *liar) serve(c *net.UnixConn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.asked++
		n := l.asked
		l.heads, l.lines = append(l.heads, req.Header), append(l.lines, req.RequestURI)
		r := honest()
		if l.lie != nil {
			l.lie(r)
		}
		l.mu.Unlock()
		if !l.send(c, r, n) {
			return
		}
	}
}

func (l *liar) send(c *net.UnixConn, r *reply, n int) bool {
	var pass []int
	for range r.passes {
		pass = append(pass, l.memory(r))
	}
	rights := unix.UnixRights(pass...)
	defer func() {
		for _, d := range pass {
			unix.Close(d)
		}
	}()
	if strings.Contains(r.shared, "%") {
		r.shared = fmt.Sprintf(r.shared, n)
	}
	out := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.millrace.shared\r\nContent-Length: %d\r\nMillrace-Shared: %s\r\n"+
		"Content-Location: /v1/datasets/photos/epochs/0/batches/0?generation=g1\r\nMillrace-Generation: g1\r\nMillrace-Epoch: 0\r\n"+
		"Millrace-Batch: 0\r\nMillrace-Batches: 4\r\nMillrace-Samples: 2\r\nMillrace-Crc32c: %08x\r\n\r\n", r.length, r.shared, r.crc))
	out = append(out, r.table...)
	first := out[:len(out)-1]
	if r.cut > 0 {
		first = out[:r.cut]
	} else if r.cut < 0 {
		first = out[:len(out)+r.cut]
	}
	if r.late {
		if _, err := c.Write(first); err != nil {
			return false
		}
	} else if _, _, err := c.WriteMsgUnix(first, rights, nil); err != nil || r.cut != 0 {
		return false
	}
	if !r.late {
		rights = nil
	}
	_, _, err := c.WriteMsgUnix(out[len(out)-1:], rights, nil)
	return err == nil
}

// memory returns a descriptor to send.
func (l *liar) memory(r *reply) int {
	if r.pipe {
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			l.t.Error(err)
		}
		unix.Close(pipe[1])
		return pipe[0]
	}
	d, err := unix.MemfdCreate("millrace-liar", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		l.t.Error(err)
		return -1
	}
	if err := errors.Join(unix.Ftruncate(d, r.size), func() error { _, err := unix.Pwrite(d, r.samples, 0); return err }()); err != nil {
		l.t.Error(err)
	}
	if _, err := unix.FcntlInt(uintptr(d), unix.F_ADD_SEALS, r.seals); err != nil {
		l.t.Error(err)
	}
	return d
}

func startLiar(t *testing.T, lie func(r *reply)) (*liar, string) {
	t.Helper()
	leaks.Check(t)
	path := socketPath(t)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{t: t, lie: lie}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { l.serve(c.(*net.UnixConn)) })
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	return l, "unix:" + path
}

// mappings counts the mappings of memory with a name.
func mappings(t *testing.T, name string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), name)
}

// liarsLeft counts pipes, and mappings and descriptors of a liar's memory.
func liarsLeft(t *testing.T) int {
	t.Helper()
	n := mappings(t, "millrace-liar")
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range open {
		if to, err := os.Readlink(name); err == nil && (strings.Contains(to, "millrace-liar") || strings.HasPrefix(to, "pipe:")) {
			n++
		}
	}
	return n
}

func sharingClient(t *testing.T, address string) *client.Client {
	t.Helper()
	return newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true, Deadline: 4 * time.Second})
}

// lie is a reply that contradicts itself, and the client's expected error; nil: any error.
type lie struct {
	tell func(*reply)
	want error
}

func lies() map[string]lie {
	header := func(text string) func(*reply) { return func(r *reply) { r.shared = text } }
	size := func(n int64) func(*reply) { return func(r *reply) { r.size = n } }
	seals := func(n int) func(*reply) { return func(r *reply) { r.seals = n } }
	number := func(at int, n uint32) func(*reply) {
		return func(r *reply) {
			binary.LittleEndian.PutUint32(r.table[at:], n)
			r.crc = castagnoli(append(bytes.Clone(r.table), r.samples...))
		}
	}
	return map[string]lie{
		"no descriptor":      {func(r *reply) { r.passes = 0 }, client.ErrProtocol},
		"two descriptors":    {func(r *reply) { r.passes = 2 }, client.ErrProtocol},
		"twenty descriptors": {func(r *reply) { r.passes = 20 }, client.ErrProtocol},
		"a pipe":             {func(r *reply) { r.pipe = true }, client.ErrProtocol},
		"one more with the end": {func(r *reply) {
			r.late, r.passes = true, 1
			r.shared = strings.Replace(r.shared, ", descriptor", "", 1)
		}, client.ErrProtocol},
		"one that is not announced": {header("lease=%[1]d, segment=%[1]d, size=131072, length=120000"), client.ErrProtocol},
		"an unknown segment":        {func(r *reply) { r.passes, r.shared = 0, "lease=1, segment=9, size=131072, length=120000" }, client.ErrProtocol},
		"too short":                 {size(1 << 16), client.ErrProtocol},
		"too long":                  {size(1 << 18), client.ErrProtocol},
		"may shrink":                {seals(allSeals &^ unix.F_SEAL_SHRINK), client.ErrProtocol},
		"may grow":                  {seals(allSeals &^ unix.F_SEAL_GROW), client.ErrProtocol},
		"may be written":            {seals(allSeals &^ unix.F_SEAL_FUTURE_WRITE), client.ErrProtocol},
		"more than the memory":      {header("lease=1, segment=%d, size=131072, length=131073, descriptor"), client.ErrProtocol},
		"another length":            {header("lease=1, segment=%d, size=131072, length=120001, descriptor"), client.ErrProtocol},
		"a vast size":               {header("lease=1, segment=%d, size=999999999999999, length=120000, descriptor"), client.ErrProtocol},
		"a size beyond numbers":     {header("lease=1, segment=%d, size=99999999999999999999, length=120000, descriptor"), client.ErrProtocol},
		"a negative length":         {header("lease=1, segment=%d, size=131072, length=-1, descriptor"), client.ErrProtocol},
		"no header":                 {header(""), client.ErrProtocol},
		"no lease":                  {header("segment=%d, size=131072, length=120000, descriptor"), client.ErrProtocol},
		"an unreadable header":      {header("lease=1,, segment=%d, size=131072, length=120000, descriptor"), client.ErrProtocol},
		"an unreadable list":        {header("lease=1, segment=%d, size=131072, length=120000, descriptor, gone=(a)"), client.ErrProtocol},
		"an unreadable end":         {header("lease=1, segment=%d, size=131072, length=120000, descriptor, gone=(1"), client.ErrProtocol},
		"another checksum":          {func(r *reply) { r.crc++ }, client.ErrCRC},
		"no body":                   {func(r *reply) { r.length, r.cut = 0, -len(r.table) }, client.ErrProtocol},
		"a table cut short":         {func(r *reply) { r.length = 44; r.table = r.table[:44] }, client.ErrProtocol},
		"more samples":              {number(8, 3), client.ErrProtocol},
		"a vast sample":             {number(40, 1<<32-1), client.ErrProtocol},
		"ends in its header":        {func(r *reply) { r.cut = 100 }, nil},
		"ends in the table":         {func(r *reply) { r.cut = -20 }, client.ErrShort},
	}
}

// TestSharedMemoryLies: a reply that contradicts itself is an error, and the client leaves no
// descriptor open and no memory mapped.
func TestSharedMemoryLies(t *testing.T) {
	framed := client.Options{Format: "framed"}
	before := liarsLeft(t)
	_, address := startLiar(t, nil)
	c := sharingClient(t, address)
	b, err := c.Batch(t.Context(), framed, 0)
	if err != nil || !b.Shared() || len(b.Sample(1)) != 60000 {
		t.Fatalf("got %v, %v, want the batch of an honest server", b, err)
	}
	b.Close()
	c.CloseIdle()
	var all sync.WaitGroup // concurrent, because each client waits before it retries
	for name, one := range lies() {
		_, address := startLiar(t, one.tell)
		c := sharingClient(t, address)
		all.Go(func() {
			b, err := c.Batch(t.Context(), framed, 0)
			if err == nil {
				b.Close()
			}
			if err == nil || one.want != nil && !errors.Is(err, one.want) {
				t.Errorf("%s: got %v, want %v", name, err, one.want)
			}
			c.CloseIdle()
		})
	}
	all.Wait()
	await(t, "all is closed and unmapped", func() bool { return liarsLeft(t) == before })
}

// TestSharedMemoryIsHeldByOneBatch: the client refuses memory that another of its batches still
// uses. That batch stays valid.
func TestSharedMemoryIsHeldByOneBatch(t *testing.T) {
	n := 0
	_, address := startLiar(t, func(r *reply) {
		if n++; n > 1 {
			r.passes, r.shared = 0, "lease=2, segment=1, size=131072, length=120000"
		}
	})
	c := sharingClient(t, address)
	held, err := c.Batch(t.Context(), client.Options{Format: "framed"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Batch(t.Context(), client.Options{Format: "framed"}, 0); !errors.Is(err, client.ErrProtocol) {
		t.Errorf("got %v, want a refusal", err)
	}
	if string(held.Sample(0)[:6]) != "sample" { // the memory is mapped although its connection was closed
		t.Error("the batch that was held has changed")
	}
	held.Close()
}

// TestSharedMemoryIsLetGo: the client releases memory with the next request, after its first line.
// It unmaps the memory once the gateway reports that it is gone.
func TestSharedMemoryIsLetGo(t *testing.T) {
	n := 0
	l, address := startLiar(t, func(r *reply) {
		if n++; n == 4 {
			r.shared += `;x="a, (b", other=(1 "2,\""), gone=(1;a 2)`
		}
	})
	c := sharingClient(t, address)
	opt := client.Options{Format: "framed"}
	var before int
	for i := range 4 {
		if i == 2 {
			opt.Quarantine = strings.Repeat("q", 6000) // the first line is longer than one write
		}
		b, err := c.Batch(t.Context(), opt, 0)
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		if i == 2 {
			before = mappings(t, "millrace-liar")
		}
	}
	if got := mappings(t, "millrace-liar") - before; got != -1 { // two mappings are removed, and one is added
		t.Errorf("got %d more mappings, want 1 less", got)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var said []string
	for i, h := range l.heads {
		said = append(said, h.Get("Millrace-Release"))
		if h.Get("User-Agent") != "millrace-client" || strings.Contains(l.lines[i], "Millrace") {
			t.Errorf("request %d: got %s and %v", i, l.lines[i], h)
		}
	}
	if want := []string{"", "1", "2", "3"}; fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("got %q let go, want %q", said, want)
	}
}

// TestSharedMemoryIsNoMoreThanTheLimit: the limit applies to a table and its samples together.
func TestSharedMemoryIsNoMoreThanTheLimit(t *testing.T) {
	before := liarsLeft(t)
	_, address := startLiar(t, nil)
	whole := int64(honest().length + len(honest().samples))
	for most, want := range map[int64]error{whole: nil, whole - 1: &client.Error{Code: client.CodeBatchTooLarge}} {
		c := newClient(t, client.Config{Gateways: []string{address}, SharedMemory: true, MaxBatchBytes: most})
		b, err := c.Batch(t.Context(), client.Options{Format: "framed"}, 0)
		if !errors.Is(err, want) || want != nil && !strings.Contains(fmt.Sprint(err), fmt.Sprintf("the batch has %d bytes, more than the client's limit of %d", whole, most)) {
			t.Errorf("%d bytes of %d at most: got %v, want %v", whole, most, err, want)
		}
		if err == nil {
			b.Close()
		}
		c.CloseIdle()
	}
	await(t, "all is closed and unmapped", func() bool { return liarsLeft(t) == before })
}
