package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/codec/jsonvalue"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// values decodes a shard whose values are not one per line. Each value is a frame.
type values struct {
	in    *jsonvalue.Reader
	array bool
	line  []byte // decoded bytes of the last value
	next  int    // offset in line of the first byte not returned yet
	end   int64  // decoded offset after line
	codec.FrameList
}

// decode starts decoding a shard of the given kind.
func decode(ctx context.Context, k kind, o format.Object, in format.Ranges) (format.Decoded, error) {
	stored := format.Stored(ctx, in, o.Size)
	if !k.decoded() {
		return format.Decoded{ReadCloser: io.NopCloser(stored)}, nil
	}
	start, err := beginning(stored, k == array)
	if err != nil {
		return format.Decoded{}, err
	}
	if _, err := stored.Seek(start, io.SeekStart); err != nil {
		return format.Decoded{}, err
	}
	v := &values{in: jsonvalue.NewReader(stored, start), array: k == array}
	return format.Decoded{ReadCloser: v, Codec: codec.JSON, Frames: v}, nil
}

// beginning returns the offset of the first value: after a byte order mark, white space, and the
// bracket of an array.
func beginning(in io.ReaderAt, array bool) (int64, error) {
	head := make([]byte, format.HeadSize)
	n, err := in.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	text := trim(head[:n])
	start := int64(n - len(text))
	if !array {
		return start, nil
	}
	if len(text) == 0 || text[0] != '[' {
		return 0, fmt.Errorf("no array begins in its first %d bytes", len(head))
	}
	return start + 1, nil
}

// Read implements io.Reader.
func (v *values) Read(p []byte) (int, error) {
	for v.next == len(v.line) {
		if err := v.read(); err != nil {
			return 0, err
		}
	}
	n := copy(p, v.line[v.next:])
	v.next += n
	return n, nil
}

// read decodes the next value, or checks the end of the shard.
func (v *values) read() (err error) {
	first := v.end == 0
	v.next = 0
	v.line, err = v.in.Next(v.line[:0])
	if end, ok := errors.AsType[*jsonvalue.Unexpected](err); ok && v.array && end.Byte == ']' && v.in.Commas == 0 {
		if v.line, err = v.in.Next(v.line[:0]); err == nil || v.in.Commas > 0 {
			return fmt.Errorf("more data follows the end of the array at offset %d: if each line is a value, let the name end in .jsonl", end.Offset)
		}
		return err
	}
	switch commas := v.in.Commas; {
	case errors.Is(err, io.EOF) && v.array:
		return fmt.Errorf("the array does not end: %w", io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF) && commas == 0, err != nil && !errors.Is(err, io.EOF):
		return err
	case v.array && !first && commas != 1, (first || !v.array) && commas != 0:
		return fmt.Errorf("the value at offset %d follows %d commas", v.in.Begin, commas)
	case !v.array && v.line[0] != '{': // a number at the end may be truncated
		return fmt.Errorf("value at offset %d is not an object", v.in.Begin)
	}
	from := v.end
	v.end += int64(len(v.line))
	v.Add(codec.Frame{Stored: v.in.Begin, StoredEnd: v.in.End, Decoded: from, DecodedEnd: v.end})
	return nil
}

// Close implements io.Closer.
func (*values) Close() error { return nil }

// Params implements format.Frames: values need no parameters.
func (*values) Params(int64, int64) ([]byte, []rows.Range) { return nil, nil }
