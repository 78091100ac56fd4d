package client

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	sharedType = "application/vnd.millrace.shared" // a table whose samples lie in memory (docs/answers.md, Batches in shared memory)
	framedType = "application/vnd.millrace.framed"

	// sharedIdle is how long a connection stays open without a request where memory may come by it. Its end gives back what was let go
	// after its last request, as early as a gateway forgets memory that nobody uses.
	sharedIdle = 10 * time.Second
)

// shares says whether an answer may be memory: of a whole body in the framed form, over a Unix socket.
func (t *transfer) shares(gw *gateway) bool {
	return canShare && t.client.cfg.SharedMemory && t.opt.Format == framedForm && !t.opt.Manifest && len(t.data) == 0 && socketOf(gw.base.Host) != ""
}

// takeShared reads an answer whose samples lie in memory. If it returns an error, the connection is closed, and no memory is held.
func (t *transfer) takeShared(gw *gateway, resp *http.Response, from *localConn, came *atomic.Int64) (_ *Batch, err error) {
	t.drop()
	var held *lease
	defer func() {
		if err != nil {
			held.end()
			from.Close()
		}
	}()
	b, err := t.header(resp)
	if err != nil {
		return nil, err
	}
	said, err := parseShared(strings.Join(resp.Header.Values("Millrace-Shared"), ", "))
	if err != nil {
		return nil, err
	}
	if resp.ContentLength < framedHead {
		return nil, fmt.Errorf("a table of %d bytes: %w", resp.ContentLength, ErrProtocol)
	}
	// Before a byte of the body is read: after its last one another request may have the connection.
	if held, err = from.take(said); err != nil {
		return nil, err
	}
	if t.size = resp.ContentLength; t.size > t.client.cfg.MaxBatchBytes-said.length {
		t.size += said.length
		return nil, t.tooLarge(gw)
	}
	if err := t.read(activityReader{resp.Body, came}); err != nil {
		return nil, err
	}
	b.data, b.lease, b.ContentType = t.data, held, framedType
	t.drop()
	if b.frame, err = readFrame(b.data, held.data, b.count); err != nil {
		return nil, err
	}
	if got := crc32.Update(crc32.Checksum(b.data, castagnoli()), castagnoli(), held.data); got != b.CRC {
		return nil, fmt.Errorf("%w: got %08x, want %08x", ErrCRC, got, b.CRC)
	}
	return b, nil
}

// sharedHeader is the parsed header Millrace-Shared.
type sharedHeader struct {
	lease, segment uint64
	size, length   int64
	fresh          bool // a descriptor came along
	gone           []uint64
}

// dictionary finds the members of a dictionary of structured fields (RFC 9651): name, value, list in parentheses.
var dictionary = func() *regexp.Regexp {
	const (
		name  = `[a-z*][a-z0-9_.*-]*`
		value = `(?:"(?:[^"\\]|\\.)*"|[^",;()\s]+)`
		more  = `(?:; *` + name + `(?:=` + value + `)?)*` // parameters
	)
	return regexp.MustCompile(`^(` + name + `)(?:=(?:(` + value + `)|\(((?: *` + value + more + `)* *)\)))?` + more + `(?:[ \t]*,[ \t]*|$)`)
}()

// parseShared reads the header. It passes over members that it does not know.
func parseShared(text string) (sharedHeader, error) {
	wrong := fmt.Errorf("header Millrace-Shared: %.200q: %w", text, ErrProtocol)
	var s sharedHeader
	var length, size uint64
	need := map[string]*uint64{"lease": &s.lease, "segment": &s.segment, "size": &size, "length": &length}
	said := map[string]bool{}
	for left := text; left != ""; {
		m := dictionary.FindStringSubmatch(left)
		if m == nil {
			return sharedHeader{}, wrong
		}
		left = left[len(m[0]):]
		name, value := m[1], m[2]
		var err error
		switch to := need[name]; {
		case to != nil:
			said[name] = true
			*to, err = strconv.ParseUint(value, 10, 50) // of fifteen digits at most
		case name == "descriptor":
			s.fresh = value == "" || value == "?1"
		case name == "gone":
			s.gone = nil
			for _, one := range strings.Fields(m[3]) {
				var n uint64
				number, _, _ := strings.Cut(one, ";")
				if n, err = strconv.ParseUint(number, 10, 50); err != nil {
					break
				}
				s.gone = append(s.gone, n)
			}
		}
		if err != nil {
			return sharedHeader{}, wrong
		}
	}
	s.size, s.length = int64(size), int64(length)
	if len(said) < len(need) || s.length > s.size || s.size == 0 {
		return sharedHeader{}, wrong
	}
	return s, nil
}

// Close lets go of a batch that lies in memory which the gateway shares (Config.SharedMemory). The slices that Sample and Part have
// returned must not be used afterwards: the gateway may write the next batch there. For any other batch Close does nothing.
func (b *Batch) Close() {
	if b.lease != nil && b.frame != nil {
		b.frame, b.data = nil, nil
		b.lease.end()
	}
}

// Shared reports whether the batch's samples lie in memory that the gateway shares, and not in this process's own.
func (b *Batch) Shared() bool { return b.lease != nil }

// whole is what Bytes returns of a batch in shared memory.
func (b *Batch) whole() []byte {
	b.needFrame()
	return append(append(make([]byte, 0, b.size()), b.data...), b.frame.samples...)
}

// size returns the length of Bytes.
func (b *Batch) size() int64 {
	if b.lease != nil {
		b.needFrame()
		return int64(len(b.data)) + int64(len(b.frame.samples))
	}
	return int64(len(b.data))
}

func (b *Batch) needFrame() {
	switch {
	case b.frame != nil:
	case b.lease != nil:
		panic("client: Batch is closed")
	default:
		panic("client: Batch has no table: set Options.Format to framed")
	}
}

// Key returns the key of sample i. It needs Options.Format framed and Options.Table with keys, and panics without.
func (b *Batch) Key(i int) string {
	b.needFrame()
	return b.frame.keys[i]
}

// Part returns the first part of sample i that has this name, as a slice of Sample(i), and false if there is none. It needs Options.Format
// framed and Options.Table with parts, and panics without.
func (b *Batch) Part(i int, name string) ([]byte, bool) {
	b.needFrame()
	for _, p := range b.frame.parts[i] {
		if p.name == name {
			return b.frame.sample(i)[p.at : p.at+p.length : p.at+p.length], true
		}
	}
	return nil, false
}
