//go:build linux

package sharedmemory_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/integration/history"
)

// readerVariable makes the test program run as a reader. Its value is SOCKET SEED TOKEN DATASET
// TOKEN DATASET.
const readerVariable = "TEST_LENT_READER"

// sawWrong is the exit code of a reader that has detected a violation.
const sawWrong = 3

// lease is a batch that a reader holds.
type lease struct {
	number string
	data   []byte
	crc    uint32
}

// connection is one connection to the gateway, with the memory that the gateway shares over it.
type connection struct {
	*net.UnixConn
	in       *bufio.Reader
	came     []int // descriptors
	segments map[string][]byte
	owners   map[string]string // dataset of each segment
	held     []lease
	release  []string // leases to release with the next request
}

// Read also records the file descriptors that arrive.
func (c *connection) Read(p []byte) (int, error) {
	control := make([]byte, 64)
	n, m, _, _, err := c.ReadMsgUnix(p, control)
	messages, _ := syscall.ParseSocketControlMessage(control[:m])
	for i := range messages {
		all, _ := syscall.ParseUnixRights(&messages[i])
		c.came = append(c.came, all...)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, err
}

// reader performs random actions.
type reader struct {
	socket      string
	random      *rand.Rand
	who         [2]struct{ token, dataset string }
	connections []*connection
	batches, shared, looks, asBytes,
	held int
}

func (r *reader) connect() error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: r.socket, Net: "unix"})
	if err != nil {
		return err
	}
	one := &connection{UnixConn: c, segments: map[string][]byte{}, owners: map[string]string{}}
	one.in = bufio.NewReader(one)
	r.connections = append(r.connections, one)
	return nil
}

// drop closes a connection, and checks that the batches held over it are unchanged.
func (r *reader) drop(i int) error {
	c := r.connections[i]
	r.connections = append(r.connections[:i:i], r.connections[i+1:]...)
	c.Close()
	for _, l := range c.held {
		if err := r.look(l); err != nil {
			return err
		}
	}
	for _, b := range c.segments {
		_ = syscall.Munmap(b)
	}
	r.held -= len(c.held)
	return nil
}

var errWrong = errors.New("wrong")

// look compares a batch with its original checksum.
func (r *reader) look(l lease) error {
	r.looks++
	if got := crc32.Checksum(l.data, castagnoli); got != l.crc {
		return fmt.Errorf("lease %s has changed while it was held: %x...: %w", l.number, l.data[:16], errWrong)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// take requests a batch. Every error except errWrong ends the connection.
func (r *reader) take(c *connection) error {
	who := r.who[r.random.IntN(2)]
	path := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d?format=framed", who.dataset, r.random.IntN(3), r.random.IntN(16))
	head := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n", path, who.token)
	if r.random.IntN(8) > 0 {
		head += "Accept: application/vnd.millrace.shared\r\n"
	}
	if len(c.release) > 0 {
		head += "Millrace-Release: " + strings.Join(c.release, ", ") + "\r\n"
		c.release = nil
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return err
	}
	if r.random.IntN(200) == 0 {
		return errors.New("the answer is not waited for")
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusTooManyRequests {
		return errors.New("too busy")
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s: %w", who.dataset, resp.StatusCode, body, errWrong)
	}
	r.batches++
	want, _ := strconv.ParseUint(resp.Header.Get("Millrace-Crc32c"), 16, 32)
	said := resp.Header.Get("Millrace-Shared")
	if said == "" {
		r.asBytes++
		if got := crc32.Checksum(body, castagnoli); got != uint32(want) {
			return fmt.Errorf("%s: bytes of CRC %x, want %x: %w", who.dataset, got, want, errWrong)
		}
		return errors.Join(tell(path, resp.Header, body), r.strange(c))
	}
	data, err := c.memory(said)
	if err != nil {
		return err
	}
	r.shared++
	if segment := member(said, "segment"); c.owners[segment] == "" {
		c.owners[segment] = who.dataset
	} else if c.owners[segment] != who.dataset {
		return fmt.Errorf("%s: the segment was lent for %s before, and for %s now: %w", said, c.owners[segment], who.dataset, errWrong)
	}
	if got := crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, data); got != uint32(want) {
		return fmt.Errorf("%s: %s: memory of CRC %x, want %x: %x...: %w", who.dataset, said, got, want, data[:16], errWrong)
	}
	c.held = append(c.held, lease{member(said, "lease"), data, crc32.Checksum(data, castagnoli)})
	r.held++
	return errors.Join(tell(path, resp.Header, body, data), r.strange(c))
}

// tell prints one batch of each epoch for the history of the test. A URL must have the same content
// in shared memory and as bytes.
func tell(path string, header http.Header, parts ...[]byte) error {
	if !strings.Contains(path, "/batches/0?") {
		return nil
	}
	return json.NewEncoder(os.Stdout).Encode(history.Answer(fmt.Sprint("reader ", os.Getpid()), path, time.Now(), http.StatusOK, header, bytes.Join(parts, nil), nil))
}

// memory returns the samples to which a response header refers.
func (c *connection) memory(said string) ([]byte, error) {
	size, _ := strconv.Atoi(member(said, "size"))
	length, _ := strconv.Atoi(member(said, "length"))
	segment := member(said, "segment")
	if strings.Contains(said, "descriptor") {
		if len(c.came) != 1 {
			return nil, fmt.Errorf("%s: %d descriptors came: %w", said, len(c.came), errWrong)
		}
		b, err := syscall.Mmap(c.came[0], 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
		syscall.Close(c.came[0])
		c.came = nil
		if err != nil {
			return nil, err
		}
		c.segments[segment] = b
	}
	if _, list, ok := strings.Cut(said, "gone=("); ok {
		for _, gone := range strings.Fields(strings.TrimSuffix(list, ")")) {
			if b := c.segments[gone]; b != nil {
				_ = syscall.Munmap(b)
				delete(c.segments, gone)
			}
		}
	}
	if len(c.segments[segment]) != size || length > size {
		return nil, fmt.Errorf("%s: a segment of %d bytes: %w", said, len(c.segments[segment]), errWrong)
	}
	return c.segments[segment][:length], nil
}

func member(said, name string) string {
	_, rest, _ := strings.Cut(said, name+"=")
	value, _, _ := strings.Cut(rest, ",")
	return value
}

// hidden is the content of the second dataset's samples. The test searches for it in memory of the
// first dataset.
var hidden = bytes.Repeat([]byte("secret! "), 8)

// strange checks that a segment for the first dataset never contains bytes of the second, even
// after its release.
func (r *reader) strange(c *connection) error {
	for n, owner := range c.owners {
		if b := c.segments[n]; b != nil && owner == r.who[0].dataset && bytes.Contains(b, hidden) {
			return fmt.Errorf("segment %s of %s shows bytes of another dataset: %w", n, owner, errWrong)
		}
		return nil // one random segment is enough
	}
	return nil
}

// letGo releases a batch.
func (r *reader) letGo(c *connection) error {
	i := r.random.IntN(len(c.held))
	l := c.held[i]
	c.held = append(c.held[:i:i], c.held[i+1:]...)
	c.release = append(c.release, l.number)
	r.held--
	return r.look(l)
}

// step performs one random action.
func (r *reader) step() error {
	if len(r.connections) == 0 || len(r.connections) < 3 && r.random.IntN(50) == 0 {
		if err := r.connect(); err != nil {
			return err
		}
	}
	i := r.random.IntN(len(r.connections))
	c := r.connections[i]
	switch kind := r.random.IntN(1000); {
	case kind < 5: // the socket stays open in another process
		return r.leaveSocket(c)
	case kind < 10:
		return r.drop(i)
	case kind < 15:
		time.Sleep(time.Duration(r.random.IntN(1500)) * time.Millisecond)
	case kind < 17: // a flood
		for range 200 {
			if err := r.take(c); err != nil {
				return errors.Join(err, r.after(i, err))
			}
		}
	case len(c.held) > 0 && kind < 100:
		return r.look(c.held[r.random.IntN(len(c.held))])
	case len(c.held) > 0 && (kind < 500 || len(c.held) > 3):
		return r.letGo(c)
	default:
		if err := r.take(c); err != nil {
			return r.after(i, err)
		}
	}
	return nil
}

// after closes a failed connection, and returns the error if it is a violation.
func (r *reader) after(i int, err error) error {
	if errors.Is(err, errWrong) {
		return err
	}
	return r.drop(i)
}

// leaveSocket passes a connection's socket to a process that runs for some seconds.
func (r *reader) leaveSocket(c *connection) error {
	f, err := c.File()
	if err != nil {
		return err
	}
	defer f.Close()
	child := exec.Command("sleep", "3")
	child.ExtraFiles = []*os.File{f}
	return child.Start()
}

// run reads until it is killed or detects a violation.
func run(order string) error {
	words := strings.Fields(order)
	seed, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return err
	}
	r := &reader{socket: words[0], random: rand.New(rand.NewPCG(seed, 1))}
	for i := range r.who {
		r.who[i].token, r.who[i].dataset = words[2+2*i], words[3+2*i]
	}
	for n := 0; ; n++ {
		if err := r.step(); errors.Is(err, errWrong) {
			return err
		}
		if n%20 == 0 {
			fmt.Println("did", r.batches, r.shared, r.asBytes, r.looks)
			r.batches, r.shared, r.asBytes, r.looks = 0, 0, 0, 0
		}
		time.Sleep(time.Duration(r.random.IntN(40)) * time.Millisecond)
	}
}
