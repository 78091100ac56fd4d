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
	sharedType = "application/vnd.millrace.shared" // a table with samples in shared memory (docs/spec/shared-memory.md)
	framedType = "application/vnd.millrace.framed"

	// sharedIdle is the time that an idle connection that can receive shared memory stays open.
	// Closing it returns leases that ended after its last request, as early as a gateway frees
	// unused segments.
	sharedIdle = 10 * time.Second
)

// shares reports whether the response may use shared memory, which requires a whole framed body
// over a Unix socket.
func (t *transfer) shares(gw *gateway) bool {
	return canShare && t.client.cfg.SharedMemory && t.opt.Format == framedForm && !t.opt.Manifest && len(t.data) == 0 && socketOf(gw.base.Host) != ""
}

// takeShared reads a response with samples in shared memory. After an error it closes the
// connection and holds no memory.
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
		return nil, fmt.Errorf("invalid sample table of %d bytes: %w", resp.ContentLength, ErrProtocol)
	}
	// take acquires the lease before the body is read: after its last byte another request may
	// use the connection.
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
	fresh          bool // the response carries a descriptor
	gone           []uint64
}

// dictionary matches one member of an RFC 9651 dictionary: name, value, inner list.
var dictionary = func() *regexp.Regexp {
	const (
		name  = `[a-z*][a-z0-9_.*-]*`
		value = `(?:"(?:[^"\\]|\\.)*"|[^",;()\s]+)`
		more  = `(?:; *` + name + `(?:=` + value + `)?)*` // parameters
	)
	return regexp.MustCompile(`^(` + name + `)(?:=(?:(` + value + `)|\(((?: *` + value + more + `)* *)\)))?` + more + `(?:[ \t]*,[ \t]*|$)`)
}()

// parseShared parses the header and ignores unknown members.
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
			*to, err = strconv.ParseUint(value, 10, 50) // at most fifteen digits
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

// Close releases the memory of a batch that the gateway shares (Config.SharedMemory). The slices
// from Sample and Part must not be used afterwards: the gateway may write the next batch there. For
// other batches Close does nothing.
func (b *Batch) Close() {
	if b.lease != nil && b.frame != nil {
		b.frame, b.data = nil, nil
		b.lease.end()
	}
}

// Shared reports whether the batch's samples are in memory that the gateway shares.
func (b *Batch) Shared() bool { return b.lease != nil }

// whole returns a copy of a batch in shared memory, for Bytes.
func (b *Batch) whole() []byte {
	b.needFrame()
	return append(append(make([]byte, 0, b.size()), b.data...), b.frame.samples...)
}

// size returns the length of Bytes without a copy.
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

// Key returns the key of sample i. It panics without Options.Format framed and Options.Table with
// keys.
func (b *Batch) Key(i int) string {
	b.needFrame()
	return b.frame.keys[i]
}

// Part returns the first part of sample i with the given name, as a slice of Sample(i), or false if
// there is none. It panics without Options.Format framed and Options.Table with parts.
func (b *Batch) Part(i int, name string) ([]byte, bool) {
	b.needFrame()
	for _, p := range b.frame.parts[i] {
		if p.name == name {
			return b.frame.sample(i)[p.at : p.at+p.length : p.at+p.length], true
		}
	}
	return nil, false
}
