package tokens

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// indexHeader is the length of an .idx file before its tables: magic number, version, type and two
// counts.
const (
	indexMagic  = "MMIDIDX\x00\x00"
	indexHeader = len(indexMagic) + 8 + 1 + 8 + 8
)

func isIndex(head []byte) bool { return bytes.HasPrefix(head, []byte(indexMagic)) }

// codeOf returns the token type for a type number in Megatron's encoding. The encoding also has two
// floating-point types.
func codeOf(code byte) (framing.DType, error) {
	names := []string{1: "|u1", 2: "|i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
	if int(code) >= len(names) || names[code] == "" {
		return framing.DType{}, fmt.Errorf("type code %d is not an integer type", code)
	}
	return framing.ParseDType(names[code])
}

// head is the header of an .idx.
type head struct {
	dtype                framing.DType
	sequences, documents uint64
}

// parseHead parses the start of an .idx, whose size must match its tables.
func parseHead(b []byte, size int64) (h head, err error) {
	if !isIndex(b) {
		return h, errors.New("it does not begin like an index of Megatron")
	}
	if len(b) < indexHeader {
		return h, errors.New("header is truncated")
	}
	le := binary.LittleEndian
	at := len(indexMagic)
	if v := le.Uint64(b[at:]); v != 1 {
		return h, fmt.Errorf("version %d is unknown", v)
	}
	if h.dtype, err = codeOf(b[at+8]); err != nil {
		return h, err
	}
	h.sequences, h.documents = le.Uint64(b[at+9:]), le.Uint64(b[at+17:])
	n := uint64(size) - uint64(indexHeader)
	if h.sequences > n/12 || h.documents > n/8 || n != h.sequences*12+h.documents*8 {
		return h, fmt.Errorf("%d bytes of tables do not match %d sequences and %d document entries", n, h.sequences, h.documents)
	}
	return h, nil
}

// readIndex reads an .idx and returns the number of tokens. It checks that sequences are contiguous
// from the first byte on, and that documents consist of whole sequences from the first to the last.
// It reads the tables of lengths and offsets in parallel, so that memory holds only one buffer per
// table.
func readIndex(ctx context.Context, l format.Listing, idx string) (dtype framing.DType, tokens int64, err error) {
	o, ok := offsets.Find(l.Objects(), idx)
	if !ok {
		return dtype, 0, fmt.Errorf("object %s does not exist", idx)
	}
	b, err := l.First(ctx, idx, int64(indexHeader))
	if err != nil {
		return dtype, 0, err
	}
	h, err := parseHead(b, o.Size)
	if err != nil {
		return dtype, 0, err
	}
	at := int64(indexHeader)
	lengths, err := l.Open(ctx, idx, at)
	if err != nil {
		return dtype, 0, err
	}
	defer lengths.Close()
	places, err := l.Open(ctx, idx, at+4*int64(h.sequences))
	if err != nil {
		return dtype, 0, err
	}
	defer places.Close()
	rest := bufio.NewReaderSize(places, tableBuffer)
	if tokens, err = sumSequences(bufio.NewReaderSize(lengths, tableBuffer), rest, h); err == nil {
		err = checkDocuments(rest, h)
	}
	return h.dtype, tokens, err
}

// tableBuffer is the number of bytes that are read from a table at a time.
const tableBuffer = 256 << 10

// sumSequences returns the total length of the sequences, which must be contiguous.
func sumSequences(lengths, places io.Reader, h head) (tokens int64, err error) {
	le := binary.LittleEndian
	size := int64(h.dtype.Size())
	var b [12]byte
	for i := range h.sequences {
		if _, err := io.ReadFull(lengths, b[:4]); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(places, b[4:]); err != nil {
			return 0, err
		}
		length, place := int32(le.Uint32(b[:])), int64(le.Uint64(b[4:]))
		if length < 0 {
			return 0, fmt.Errorf("sequence %d has %d tokens", i, length)
		}
		if place != tokens*size {
			return 0, fmt.Errorf("sequence %d begins at byte %d, not at %d, where the preceding one ends", i, place, tokens*size)
		}
		if tokens += int64(length); tokens > maxTokens {
			return 0, errors.New("too many tokens")
		}
	}
	return tokens, nil
}

// checkDocuments checks that the table lists the first sequence of each document in order, and ends
// with the number of sequences.
func checkDocuments(table io.Reader, h head) error {
	last := uint64(0)
	var b [8]byte
	for i := range h.documents {
		if _, err := io.ReadFull(table, b[:]); err != nil {
			return err
		}
		at := binary.LittleEndian.Uint64(b[:])
		if i == 0 && at != 0 || at < last || at > h.sequences {
			return fmt.Errorf("document %d begins at sequence %d of %d, but the preceding one at %d", i, at, h.sequences, last)
		}
		last = at
	}
	if h.documents > 0 && last != h.sequences {
		return fmt.Errorf("the last document ends at sequence %d, but there are %d sequences", last, h.sequences)
	}
	return nil
}
