package arrowbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Kinds of messages, as Message.fbs numbers them.
const (
	KindSchema     = 1
	KindDictionary = 2
	KindRecords    = 3
)

// MaxMetadata is the length of the longest metadata of a message that is read.
const MaxMetadata = 16 << 20

// prefix is the length of what stands before the metadata of a message: a mark, and their length.
const prefix = 8

// Message is the head of a message of an Arrow stream or file.
type Message struct {
	Kind int
	Head int64 // bytes before the body: the prefix and the metadata
	Body int64 // bytes of the body

	header table
}

// errMessage is returned for bytes that are no message.
var errMessage = errors.New("message of Arrow is malformed")

// HeadLength returns how many bytes the head of a message has, from its first eight. It returns io.EOF for the mark with which a stream
// ends.
func HeadLength(b []byte) (int64, error) {
	if len(b) < prefix {
		return 0, fmt.Errorf("%d bytes: %w", len(b), errMessage)
	}
	mark, n := binary.LittleEndian.Uint32(b), int64(binary.LittleEndian.Uint32(b[4:]))
	switch {
	case mark == 0:
		return 0, io.EOF // as writers before Arrow 0.15 ended a stream
	case mark != 0xffffffff:
		return 0, fmt.Errorf("message of the format before Arrow 0.15, or none of Arrow's: %w", errMessage)
	case n == 0:
		return 0, io.EOF
	case n > MaxMetadata:
		return 0, fmt.Errorf("metadata of %d bytes, more than %d: %w", n, MaxMetadata, errMessage)
	}
	return prefix + n, nil
}

// ParseMessage reads the head of a message, which is all of b.
func ParseMessage(b []byte) (*Message, error) {
	n, err := HeadLength(b)
	if err != nil || n != int64(len(b)) {
		return nil, errMessage
	}
	f := &flat{b: b[prefix:]}
	t := f.root()
	m := &Message{Kind: int(t.u8(1, 0)), Head: n, Body: t.i64(3), header: t.table(2)}
	if version := t.i16(0, 0); version < 3 || version > 4 {
		return nil, fmt.Errorf("metadata version %d, where 4 and 5 are read: %w", version+1, errMessage)
	}
	if f.bad || m.Body < 0 || m.Body%8 != 0 {
		return nil, errMessage
	}
	return m, nil
}

// Block is where a message lies in a file.
type Block struct{ Offset, Length int64 }

// ParseFooter reads the footer of a file: its schema, and where its record batches lie.
func ParseFooter(b []byte) (*Schema, []Block, error) {
	f := &flat{b: b}
	t := f.root()
	s, err := parseSchema(t.table(1))
	if err != nil {
		return nil, nil, err
	}
	if _, n := t.vector(2, 24); n > 0 {
		return nil, nil, errDictionary
	}
	at, n := t.vector(3, 24)
	blocks := make([]Block, n)
	end := int64(0)
	for i := range blocks {
		off, head, body := f.i64(at+24*i), int64(int32(f.u32(at+24*i+8))), f.i64(at+24*i+16)
		if off < end || head < prefix || body < 0 || head+body < 0 || off+head+body < off {
			return nil, nil, fmt.Errorf("record batch %d of the footer: %w", i, errMessage)
		}
		blocks[i] = Block{off, head + body}
		end = off + head + body
	}
	if f.bad {
		return nil, nil, errMessage
	}
	return s, blocks, nil
}

// ParseSchema reads the schema of a message of that kind.
func (m *Message) ParseSchema() (*Schema, error) { return parseSchema(m.header) }
