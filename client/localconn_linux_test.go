package client

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

const lentName = "millrace-lent"

// sealed returns a descriptor of memory with the required seals.
func sealed(t *testing.T, size int64) int {
	t.Helper()
	d, err := unix.MemfdCreate(lentName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(d, size)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(d), unix.F_ADD_SEALS, wantSeals)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func lentMappings(t *testing.T) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), lentName)
}

// connected returns both ends of a connection.
func connected(t *testing.T) (n *localConn, gateway *net.UnixConn) {
	t.Helper()
	leaks.Check(t)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, d := range pair {
		f := os.NewFile(uintptr(d), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	t.Cleanup(func() { ends[1].Close() })
	n = newNeighbour(ends[0])
	t.Cleanup(func() { n.Close() })
	return n, ends[1]
}

// TestNeighbour_EndsAsReadersDo checks that Read returns io.EOF itself. net/http compares with it
// at the end of a body without a length, and when an idle connection is closed.
func TestNeighbour_EndsAsReadersDo(t *testing.T) {
	n, gateway := connected(t)
	if _, err := gateway.Write([]byte("bytes")); err != nil {
		t.Fatal(err)
	}
	gateway.Close()
	p := make([]byte, 9)
	if got, err := n.Read(p); got != 5 || err != nil {
		t.Errorf("got %d bytes, %v, want 5", got, err)
	}
	if got, err := n.Read(p); got != 0 || err != io.EOF {
		t.Errorf("at the end: got %d bytes, %v, want %v", got, err, io.EOF)
	}
	n.Close()
	if got, err := n.Read(p); got != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: got %d bytes, %v, want %v", got, err, net.ErrClosed)
	}
}

// TestNeighbour_TakesOnlyWhatIsAnnounced: for every header the client closes the received
// descriptor. A refused header maps no memory.
func TestNeighbour_TakesOnlyWhatIsAnnounced(t *testing.T) {
	const page = 4096
	for name, c := range map[string]struct {
		came  int64 // size of the received memory; 0: none
		ended bool
		says  sharedHeader
		want  string
	}{
		"new":                 {page, false, sharedHeader{segment: 9, size: page, length: 7, fresh: true}, ""},
		"known":               {0, false, sharedHeader{segment: 1, size: page, length: page}, ""},
		"closed":              {page, true, sharedHeader{segment: 9, size: page, fresh: true}, net.ErrClosed.Error()},
		"nothing came":        {0, false, sharedHeader{segment: 9, size: page, fresh: true}, "its file descriptor is missing"},
		"not announced":       {page, false, sharedHeader{segment: 1, size: page}, "got a file descriptor that was not announced"},
		"a number in use":     {page, false, sharedHeader{segment: 1, size: page, fresh: true}, "another segment has this number"},
		"unknown":             {0, false, sharedHeader{segment: 9, size: page}, "no segment has this number"},
		"another size":        {0, false, sharedHeader{segment: 1, size: page + 1}, "its size has changed"},
		"lent":                {0, false, sharedHeader{segment: 2, size: page}, "another batch still uses it"},
		"memory of less size": {page, false, sharedHeader{segment: 9, size: page + 1, fresh: true}, "got 4096 bytes, want 4097"},
		"gone, but refused":   {0, false, sharedHeader{segment: 9, size: page, gone: []uint64{1}}, "no segment has this number"},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := connected(t)
			var first *lease
			for i := range uint64(2) {
				n.came = sealed(t, page)
				l, err := n.take(sharedHeader{segment: i + 1, lease: i + 1, size: page, length: 1, fresh: true})
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = l
				} else {
					t.Cleanup(l.end)
				}
			}
			first.end()
			n.awaits, n.ended = true, c.ended
			if c.came > 0 {
				n.came = sealed(t, c.came)
			}
			l, err := n.take(c.says)
			if c.want == "" && (err != nil || int64(len(l.data)) != c.says.length || cap(l.data) != len(l.data) || !n.segments[c.says.segment].lent) {
				t.Fatalf("got %+v, %v, want %d bytes lent", l, err, c.says.length)
			}
			if c.want != "" && (err == nil || !strings.HasSuffix(strings.TrimSuffix(err.Error(), ": "+ErrProtocol.Error()), c.want) || errors.Is(err, ErrProtocol) == c.ended) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if want := map[bool]int{true: 3, false: 2}[c.says.segment == 9 && c.want == ""]; n.awaits || n.came >= 0 || len(n.segments) != want || lentMappings(t) != want {
				t.Errorf("got awaits %t, descriptor %d, %d segments, %d mappings, want %d", n.awaits, n.came, len(n.segments), lentMappings(t), want)
			}
			l.end()
		})
	}
}

// TestNeighbour_UnmapsWhatIsGone: the client unmaps memory when no batch uses it. It reports each
// ended lease while the connection is open.
func TestNeighbour_UnmapsWhatIsGone(t *testing.T) {
	n, _ := connected(t)
	take := func(number uint64, gone ...uint64) *lease {
		n.came = sealed(t, 4096)
		l, err := n.take(sharedHeader{lease: 10 * number, segment: number, size: 4096, length: 4096, fresh: true, gone: gone})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := take(1), take(2)
	mapped := func(what string, want int, released ...uint64) {
		t.Helper()
		if got := lentMappings(t); got != want || fmt.Sprint(n.released) != fmt.Sprint(released) {
			t.Errorf("%s: got %d mappings, %d released, want %d, %d", what, got, n.released, want, released)
		}
	}
	mapped("two batches", 2)
	a.end()
	a.end()
	mapped("one has ended", 2, 10)
	c := take(3, 1, 2, 7)
	mapped("both segments are gone", 2, 10)
	b.end()
	mapped("the other one has ended", 1, 10, 20)
	if a.data != nil || b.data != nil || c.data == nil {
		t.Error("a lease that has ended holds memory, or one that has not holds none")
	}
	n.came = sealed(t, 4096)
	if err := n.Close(); err != nil || n.came >= 0 || len(n.segments) != 0 {
		t.Errorf("got %v, descriptor %d, %d segments, want none", err, n.came, len(n.segments))
	}
	mapped("closed", 1, 10, 20)
	c.end()
	mapped("closed, and all batches have ended", 0, 10, 20)
	(*lease)(nil).end()
}

// TestNeighbour_ReadsADescriptorOnlyWhereOneMayCome checks that the client accepts a single
// descriptor, only if it awaits one, and closes all others.
func TestNeighbour_ReadsADescriptorOnlyWhereOneMayCome(t *testing.T) {
	for name, c := range map[string]struct {
		awaits, ended bool
		came          int // before
		pass          int
		ok            bool
	}{
		"announced": {true, false, 0, 1, true}, "none": {false, false, 0, 0, true}, "none of those awaited": {true, false, 0, 0, true},
		"not awaited": {false, false, 0, 1, false}, "a second one": {true, false, 1, 1, false}, "two": {true, false, 0, 2, false}, "after the end": {true, true, 0, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, gateway := connected(t)
			n.begin(c.awaits)
			n.ended = c.ended
			var pass []int
			for range c.pass {
				pass = append(pass, sealed(t, 1))
			}
			if _, _, err := gateway.WriteMsgUnix([]byte("bytes"), unix.UnixRights(pass...), nil); err != nil {
				t.Fatal(err)
			}
			for _, d := range pass {
				unix.Close(d)
			}
			if c.came > 0 {
				n.came = sealed(t, 1)
			}
			got, err := n.Read(make([]byte, 9))
			if c.ok && (got != 5 || err != nil) || !c.ok && (got != 0 || !errors.Is(err, ErrProtocol)) {
				t.Errorf("got %d bytes, %v, want it taken: %t", got, err, c.ok)
			}
			if want := c.came > 0 || c.ok && c.pass > 0; (n.came >= 0) != want {
				t.Errorf("got descriptor %d, want one: %t", n.came, want)
			}
			n.begin(false)
			if n.came >= 0 || n.awaits {
				t.Error("the next request began with the descriptor of the one before")
			}
		})
	}
}

// TestNeighbour_WritesReleasesBehindTheFirstLine checks that Write inserts the releases once, after
// the first line of the next request, and returns only the number of bytes passed to it.
func TestNeighbour_WritesReleasesBehindTheFirstLine(t *testing.T) {
	n, gateway := connected(t)
	for _, c := range []struct {
		begins   bool
		released []uint64
		write    string
		sent     string
		left     int
	}{
		{true, nil, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0},
		{true, []uint64{1}, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nMillrace-Release: 1\r\nHost: a\r\n\r\n", 0},
		{true, []uint64{1, 20, 3}, "a\r\nb", "a\r\nMillrace-Release: 1, 20, 3\r\nb", 0},
		{false, []uint64{4}, "body\r\n", "body\r\n", 1},
		{true, nil, "GET /long", "GET /long", 1},
		{false, nil, "er\r\nc", "er\r\nMillrace-Release: 4\r\nc", 0}, // the same request continues
		{false, nil, "d\r\ne", "d\r\ne", 0},
	} {
		if c.begins {
			n.begin(false)
		}
		n.released = append(n.released, c.released...)
		if written, err := n.Write([]byte(c.write)); written != len(c.write) || err != nil {
			t.Errorf("%q: got %d, %v, want %d", c.write, written, err, len(c.write))
		}
		got := make([]byte, 200)
		m, err := gateway.Read(got)
		if string(got[:m]) != c.sent || err != nil || len(n.released) != c.left {
			t.Errorf("%q: got %q, %v, %d left to tell, want %q, %d", c.write, got[:m], err, len(n.released), c.sent, c.left)
		}
	}
}

// TestParseShared_RefusesWhatIsNotWhole: parseShared refuses incomplete values and ignores unknown
// members.
func TestParseShared_RefusesWhatIsNotWhole(t *testing.T) {
	const whole = "lease=1, segment=2, size=4, length=3"
	base := sharedHeader{lease: 1, segment: 2, size: 4, length: 3}
	with := func(change func(*sharedHeader)) *sharedHeader { s := base; change(&s); return &s }
	for text, want := range map[string]*sharedHeader{
		whole:                                                &base,
		whole + ", descriptor":                               with(func(s *sharedHeader) { s.fresh = true }),
		whole + ", descriptor=?1;a=b":                        with(func(s *sharedHeader) { s.fresh = true }),
		whole + ", descriptor=?0":                            &base,
		whole + ", descriptor, descriptor=?0":                &base,
		whole + `, gone=(7 8;x="(9)"), gone=( 5;a  6 )`:      with(func(s *sharedHeader) { s.gone = []uint64{5, 6} }),
		whole + ", gone=()":                                  &base,
		whole + ", length=4":                                 with(func(s *sharedHeader) { s.length = 4 }),
		whole + `, x="a, (b", y=(1 "2"), z`:                  &base,
		"lease=0,segment=0\t,size=1,length=0":                {size: 1},
		"lease=1, segment=2, size=999999999999999, length=3": with(func(s *sharedHeader) { s.size = 999999999999999 }),
		"": nil, whole + ",, a": nil, whole + ", gone=(a)": nil, whole + ", gone=(5": nil, whole + ", length=5": nil, whole + ", size=0, length=0": nil, whole + ", lease=-1": nil,
		whole + ", lease": nil, whole + ", segment=1125899906842624": nil, whole + ", gone=(1125899906842624)": nil, whole + ", size=99999999999999999999": nil,
		"lease=1, segment=2, size=4": nil, "lease=1, segment=2, length=3": nil, "lease=1, size=4, length=3": nil, "segment=2, size=4, length=3": nil, whole + ", A=1": nil,
	} {
		got, err := parseShared(text)
		switch {
		case want == nil && (!errors.Is(err, ErrProtocol) || fmt.Sprint(got) != fmt.Sprint(sharedHeader{})):
			t.Errorf("%s: got %+v, %v, want a refusal", text, got, err)
		case want != nil && (err != nil || fmt.Sprint(got) != fmt.Sprint(*want)):
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, *want)
		}
	}
}

// TestTakeShared_ClosesTheConnectionOfALie: after a contradictory response the client trusts
// nothing else on the connection. It closes the connection and maps no memory.
func TestTakeShared_ClosesTheConnectionOfALie(t *testing.T) {
	table := append([]byte("MLRF\x01\x00\x00\x00"), make([]byte, 32)...)
	table[28] = framedHead // a table without samples
	crc := fmt.Sprintf("%08x", crc32.Checksum(table, castagnoli()))
	for name, c := range map[string]struct {
		header map[string]string
		table  string
		most   int64
		want   error
	}{
		"the truth":     {nil, string(table), framedHead, nil},
		"wrong head":    {map[string]string{"Millrace-Epoch": "1"}, string(table), framedHead, ErrProtocol},
		"no memory":     {map[string]string{"Millrace-Shared": "lease=1"}, string(table), framedHead, ErrProtocol},
		"no table":      {map[string]string{"Content-Length": "39"}, string(table), framedHead, ErrProtocol},
		"not announced": {map[string]string{"Millrace-Shared": "lease=1, segment=1, size=4096, length=0"}, string(table), framedHead, ErrProtocol},
		"too large":     {nil, string(table), framedHead - 1, &Error{Code: CodeBatchTooLarge}},
		"short":         {nil, string(table[1:]), framedHead, ErrShort},
		"not a table":   {nil, "X" + string(table[1:]), framedHead, ErrProtocol},
		"wrong bytes":   {map[string]string{"Millrace-Crc32c": "1"}, string(table), framedHead, ErrCRC},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := connected(t)
			n.begin(true)
			n.came = sealed(t, 4096)
			resp := &http.Response{Header: batchHeader(""), Body: io.NopCloser(strings.NewReader(c.table)), ContentLength: framedHead}
			resp.Header.Set("Millrace-Samples", "0")
			resp.Header.Set("Millrace-Crc32c", crc)
			resp.Header.Set("Millrace-Shared", "lease=1, segment=1, size=4096, length=0, descriptor")
			for name, value := range c.header {
				resp.Header.Set(name, value)
			}
			if resp.Header.Get("Content-Length") == "39" {
				resp.ContentLength = 39
			}
			tr := &transfer{client: &Client{cfg: Config{MaxBatchBytes: c.most}}}
			b, err := tr.takeShared(&gateway{base: &url.URL{Host: "a"}}, resp, n, new(atomic.Int64))
			if !errors.Is(err, c.want) || (b == nil) != (c.want != nil) || n.ended != (c.want != nil) || n.came >= 0 || len(tr.data) > 0 && c.want == nil {
				t.Errorf("got %+v, %v, closed: %t, descriptor %d, want %v", b, err, n.ended, n.came, c.want)
			}
			if want := map[bool]int{true: 1}[c.want == nil]; lentMappings(t) != want {
				t.Errorf("got %d mappings, want %d", lentMappings(t), want)
			}
			if b != nil {
				b.Close()
			}
		})
	}
}
