// Package zipmember decodes chunks of zip archives: the contents of members, stored or deflated.
package zipmember

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
)

// Supported compression methods of members.
const (
	Stored   = 0
	Deflated = 8
)

// HeaderSize is the length of a member's header before its name.
const HeaderSize = 30

// Magic is the signature of a member's header.
const Magic = "PK\x03\x04"

// Member describes how to decode a member of a zip archive. The values come from the archive's
// directory, because the member's own header may lack them.
type Member struct {
	Ahead   int64 // distance from the preceding member's header in the chunk to this member's header; 0 for the first member
	Method  int   // Stored or Deflated
	Stored  int64 // stored bytes of the content
	Decoded int64
}

// Append appends a member to the parameters of a chunk.
func Append(params []byte, m Member) []byte {
	for _, n := range []int64{m.Ahead, int64(m.Method), m.Stored, m.Decoded} {
		params = binary.AppendUvarint(params, uint64(n))
	}
	return params
}

var errMember = errors.New("parameters of a member are malformed")

// cutMember decodes a member from the start of a chunk's parameters, and returns the remaining
// parameters.
func cutMember(params []byte) (m Member, rest []byte, err error) {
	var of [4]int64
	for i := range of {
		n, size := binary.Uvarint(params)
		if size <= 0 || n > 1<<62 {
			return m, nil, errMember
		}
		of[i], params = int64(n), params[size:]
	}
	m = Member{Ahead: of[0], Stored: of[2], Decoded: of[3]}
	switch of[1] {
	case Stored, Deflated:
		m.Method = int(of[1])
		return m, params, nil
	}
	return m, nil, errMember
}

// Decode fills dst with the contents of the members that the parameters describe. stored begins
// with the header of the first member.
func Decode(params, stored, dst []byte) error {
	for len(dst) > 0 {
		m, rest, err := cutMember(params)
		if err != nil {
			return err
		}
		params = rest
		if m.Ahead > int64(len(stored)) {
			return io.ErrUnexpectedEOF
		}
		stored = stored[m.Ahead:]
		if m.Decoded > int64(len(dst)) {
			return fmt.Errorf("member of %d bytes does not fit into the remaining %d bytes of the chunk", m.Decoded, len(dst))
		}
		if err := m.decode(stored, dst[:m.Decoded]); err != nil {
			return err
		}
		dst = dst[m.Decoded:]
	}
	if len(params) > 0 {
		return errMember
	}
	return nil
}

// decode fills dst with a member's content. b begins with the member's header.
func (m *Member) decode(b, dst []byte) error {
	if len(b) < HeaderSize || string(b[:4]) != Magic {
		return errors.New("the header of a member is missing")
	}
	head := HeaderSize + int64(binary.LittleEndian.Uint16(b[26:])) + int64(binary.LittleEndian.Uint16(b[28:]))
	if head > int64(len(b)) || m.Stored > int64(len(b))-head {
		return io.ErrUnexpectedEOF
	}
	content := b[head : head+m.Stored]
	if m.Method == Stored {
		if m.Stored != m.Decoded {
			return errMember
		}
		copy(dst, content)
		return nil
	}
	_, err := io.ReadFull(flate.NewReader(bytes.NewReader(content)), dst)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
