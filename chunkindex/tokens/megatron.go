package tokens

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/records"
)

// indexHeader is what stands before the tables of an .idx: magic, version, type, and two counts.
const (
	indexMagic  = "MMIDIDX\x00\x00"
	indexHeader = len(indexMagic) + 8 + 1 + 8 + 8
)

func isIndex(head []byte) bool { return bytes.HasPrefix(head, []byte(indexMagic)) }

// codeOf is how Megatron numbers the types of tokens. Two more of its numbers are of fractions.
func codeOf(code byte) (records.DType, error) {
	names := []string{1: "|u1", 2: "|i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
	if int(code) >= len(names) || names[code] == "" {
		return records.DType{}, fmt.Errorf("type %d is not one of whole numbers", code)
	}
	return records.ParseDType(names[code])
}

// parseIndex reads an .idx and returns how many tokens it says there are. Every number is checked: that sequences lie one
// after another from the first byte on, and documents are whole sequences, from the first to the last.
func parseIndex(b []byte) (dtype records.DType, tokens int64, err error) {
	if !isIndex(b) {
		return dtype, 0, errors.New("does not begin as an index of Megatron does")
	}
	if len(b) < indexHeader {
		return dtype, 0, errors.New("header is cut")
	}
	le := binary.LittleEndian
	at := len(indexMagic)
	if v := le.Uint64(b[at:]); v != 1 {
		return dtype, 0, fmt.Errorf("version %d is unknown", v)
	}
	if dtype, err = codeOf(b[at+8]); err != nil {
		return dtype, 0, err
	}
	sequences, documents := le.Uint64(b[at+9:]), le.Uint64(b[at+17:])
	b = b[indexHeader:]
	n := uint64(len(b))
	if sequences > n/12 || documents > n/8 || n != sequences*12+documents*8 {
		return dtype, 0, fmt.Errorf("%d bytes of tables are not those of %d sequences and %d entries of documents", n, sequences, documents)
	}
	lengths, pointers, docs := b[:sequences*4], b[sequences*4:sequences*12], b[sequences*12:]
	if tokens, err = sumSequences(lengths, pointers, int64(dtype.Size())); err != nil {
		return dtype, 0, err
	}
	return dtype, tokens, checkDocuments(docs, sequences)
}

// sumSequences adds up the lengths of sequences that lie one after another.
func sumSequences(lengths, pointers []byte, size int64) (tokens int64, err error) {
	le := binary.LittleEndian
	for i := 0; i*4 < len(lengths); i++ {
		length, pointer := int32(le.Uint32(lengths[i*4:])), int64(le.Uint64(pointers[i*8:]))
		if length < 0 {
			return 0, fmt.Errorf("sequence %d has %d tokens", i, length)
		}
		if pointer != tokens*size {
			return 0, fmt.Errorf("sequence %d begins at byte %d, not at %d, where the one before ends", i, pointer, tokens*size)
		}
		if tokens += int64(length); tokens > maxTokens {
			return 0, errors.New("more tokens than can be")
		}
	}
	return tokens, nil
}

// checkDocuments wants the first sequence of each document in order, and the number of sequences last.
func checkDocuments(docs []byte, sequences uint64) error {
	last := uint64(0)
	for i := 0; i*8 < len(docs); i++ {
		at := binary.LittleEndian.Uint64(docs[i*8:])
		if i == 0 && at != 0 || at < last || at > sequences {
			return fmt.Errorf("document %d begins at sequence %d, of %d, and the one before at %d", i, at, sequences, last)
		}
		last = at
	}
	if len(docs) > 0 && last != sequences {
		return fmt.Errorf("documents end at sequence %d of %d", last, sequences)
	}
	return nil
}
