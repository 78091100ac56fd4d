package arrowbatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Message types with the numbers that Message.fbs defines.
const (
	KindSchema     = 1
	KindDictionary = 2
	KindRecords    = 3
)

// MaxMetadata limits the length of a message's metadata.
const MaxMetadata = 16 << 20

// prefix is the length of a message before its metadata: a marker and the metadata's length.
const prefix = 8

// Message is the head of a message of an Arrow stream or file.
type Message struct {
	Kind int
	Head int64 // bytes before the body: prefix and metadata
	Body int64 // number of bytes in the body

	header table
	packed int // buffer compression that writers of Arrow 0.17 declare in the metadata; -1: not declared there
}

// errMessage is the error for bytes that are not a valid message.
var errMessage = errors.New("message of Arrow is malformed")

// HeadLength returns the length of a message's head. b contains the first eight bytes of the
// message. HeadLength returns io.EOF for an end-of-stream marker.
func HeadLength(b []byte) (int64, error) {
	if len(b) < prefix {
		return 0, fmt.Errorf("%d bytes: %w", len(b), errMessage)
	}
	mark, n := binary.LittleEndian.Uint32(b), int64(binary.LittleEndian.Uint32(b[4:]))
	switch {
	case mark == 0:
		return 0, io.EOF // end-of-stream marker that writers used before Arrow 0.15
	case mark != 0xffffffff:
		return 0, fmt.Errorf("message of a format before Arrow 0.15, or not an Arrow message: %w", errMessage)
	case n == 0:
		return 0, io.EOF
	case n > MaxMetadata:
		return 0, fmt.Errorf("metadata of %d bytes, more than %d: %w", n, MaxMetadata, errMessage)
	}
	return prefix + n, nil
}

// ParseMessage parses the head of a message. b must contain exactly the head.
func ParseMessage(b []byte) (_ *Message, err error) {
	defer catch(&err)
	n, err := HeadLength(b)
	if err != nil || n != int64(len(b)) {
		return nil, errMessage
	}
	t := root(b[prefix:])
	m := &Message{Kind: int(t.u8(1, 0)), Head: n, Body: t.i64(3), header: t.table(2)}
	if version := t.i16(0, 0); version < 3 || version > 4 {
		return nil, fmt.Errorf("metadata version %d; only 4 and 5 are supported: %w", version+1, errMessage)
	}
	if m.packed, err = experimental(t); err != nil {
		return nil, err
	}
	if m.Body < 0 || m.Body%8 != 0 {
		return nil, errMessage
	}
	return m, nil
}

// experimental returns the compression that a message's own metadata declares, or -1. Files of
// Arrow 0.17, such as Feather files with default compression, declare it there. Later versions
// declare it in the record batch.
func experimental(t table) (int, error) {
	for _, pair := range t.tables(4) {
		if pair.text(0) != "ARROW:experimental_compression" {
			continue
		}
		switch name := strings.ToLower(pair.text(1)); name {
		case "lz4":
			return packLZ4, nil
		case "zstd":
			return packZstd, nil
		default:
			return 0, fmt.Errorf("it is compressed by %.40q; only LZ4 and zstd are supported", name)
		}
	}
	return -1, nil
}

// Block is the location of a message in a file.
type Block struct{ Offset, Length int64 }

// Footer is the footer of a file: its schema and the locations of its messages.
type Footer struct {
	Schema       *Schema
	Dictionaries []Block
	Batches      []Block // in file order
}

// ParseFooter parses the footer of a file.
func ParseFooter(b []byte) (_ *Footer, err error) {
	defer catch(&err)
	t := root(b)
	s, err := new(schemaReader).schema(t.table(1))
	if err != nil {
		return nil, err
	}
	all := &Footer{Schema: s, Dictionaries: t.blocks(2, "dictionary"), Batches: t.blocks(3, "record batch")}
	end := int64(0)
	for i, block := range all.Batches {
		if block.Offset < end {
			return nil, fmt.Errorf("record batch %d of the footer: %w", i, errMessage)
		}
		end = block.Offset + block.Length
	}
	return all, nil
}

// blocks parses a vector of message locations.
func (t table) blocks(entry int, what string) []Block {
	v := t.vector(entry, 24)
	blocks := make([]Block, len(v)/24)
	for i := range blocks {
		off, head, body := number(&v), int64(int32(number(&v))), number(&v)
		if off < 0 || head < prefix || body < 0 || head+body < 0 || off+head+body < off {
			fail(fmt.Errorf("%s %d of the footer: %w", what, i, errMessage))
		}
		blocks[i] = Block{off, head + body}
	}
	return blocks
}

// ParseSchema parses the schema in a message of kind KindSchema.
func (m *Message) ParseSchema() (*Schema, error) { return new(schemaReader).schema(m.header) }
