package scantest_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/rows"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// The format of this file is the example of docs/dev/adding-a-decoded-format.md.

// Base64 reads lines of text that are stored as base64. Each line of base64 may encode several of them.
func Base64() format.Format {
	return format.Format{Name: "base64", Shards: "names in .b64", Survey: surveyBase64}
}

func surveyBase64(_ context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	shards := format.Called(l, o, ".b64")
	d := format.NewDataset(shards, scanLines)
	if d != nil {
		d.Decode = func(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
			r := &base64Reader{in: bufio.NewReader(format.Stored(ctx, in, shards[shard].Size))}
			return format.Decoded{ReadCloser: r, Codec: toy, Frames: r}, nil
		}
	}
	return d, nil
}

// scanLines finds the samples in the decoded bytes. Each line is a sample.
func scanLines(shard format.Object, c *format.Cursor) error {
	stem := format.Stem(shard.Key, ".b64")
	for n := uint64(0); ; n++ {
		line, err := c.Line(1 << 20)
		if err != nil || len(line) == 0 {
			return err
		}
		if line[len(line)-1] != '\n' {
			return c.Fail("line %d does not end, or is longer than 1 MiB", n)
		}
		size := int64(len(line))
		if err := c.Begin(format.Numbered(stem, n)); err != nil {
			return err
		}
		if err := c.Part("txt", size-1); err != nil {
			return err
		}
		if err := c.Data(1); err != nil {
			return err
		}
		if err := c.End(); err != nil {
			return err
		}
	}
}

// base64Reader decodes a shard sequentially. Each line of base64 is a frame.
type base64Reader struct {
	in              *bufio.Reader
	frame           []byte // decoded bytes of the frame that Read has not returned yet
	stored, decoded int64  // offsets at which the next frame begins
	codec.FrameList        // implements At and Keep
}

func (r *base64Reader) Read(p []byte) (int, error) {
	for len(r.frame) == 0 {
		line, err := r.in.ReadString('\n')
		if err != nil && (line == "" || !errors.Is(err, io.EOF)) {
			return 0, err
		}
		if r.frame, err = base64.StdEncoding.DecodeString(strings.TrimSuffix(line, "\n")); err != nil {
			return 0, fmt.Errorf("line at offset %d: %w", r.stored, err)
		}
		f := codec.Frame{Stored: r.stored, StoredEnd: r.stored + int64(len(line)), Decoded: r.decoded, DecodedEnd: r.decoded + int64(len(r.frame))}
		if r.stored, r.decoded = f.StoredEnd, f.DecodedEnd; len(r.frame) > 0 {
			r.Add(f)
		}
	}
	n := copy(p, r.frame)
	r.frame = r.frame[n:]
	return n, nil
}

func (r *base64Reader) Close() error { return nil }

// Params returns no parameters, because a frame can be decoded without any.
func (r *base64Reader) Params(int64, int64) ([]byte, []rows.Range) { return nil, nil }

// decodeLines implements Decode of the codec. It fills dst with the decoded frames of a chunk.
func decodeLines(_, stored, dst []byte) error {
	for len(dst) > 0 {
		line, rest, _ := bytes.Cut(stored, []byte("\n"))
		frame, err := base64.StdEncoding.AppendDecode(nil, line)
		if err != nil {
			return err
		}
		if len(frame) > len(dst) || len(stored) == 0 {
			return io.ErrUnexpectedEOF
		}
		dst, stored = dst[copy(dst, frame):], rest
	}
	return nil
}

// toy is the number of the codec, which is not in the table of codecs.
const toy codec.Codec = 200

func base64Dataset() scantest.Dataset {
	line := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) + "\n" }
	return scantest.Dataset{
		Format:  Base64(),
		Framing: format.Bare("text/plain"),
		Objects: scantest.Objects{"a.b64": []byte(line("one\ntwo\n") + line("") + line("three\n")), "b.b64": {}, "c.b64": []byte(line("four\n"))},
	}
}

func TestBase64_Conforms(t *testing.T) { scantest.Conforms(t, base64Dataset()) }

// TestBase64_FramesDecodeByThemselves checks that a chunk can be decoded from any run of whole frames, as the index stores them.
func TestBase64_FramesDecodeByThemselves(t *testing.T) {
	o := base64Dataset().Objects
	d, err := Base64().Survey(t.Context(), o, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stored := o["a.b64"]
	in, err := d.Decode(t.Context(), 0, ranges(stored))
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := io.ReadAll(in)
	if err != nil || string(decoded) != "one\ntwo\nthree\n" {
		t.Fatalf("got %q, %v", decoded, err)
	}
	for _, run := range [][2]int64{{0, 0}, {0, 8}, {8, 8}} {
		first, ok1 := in.Frames.At(run[0])
		last, ok2 := in.Frames.At(run[1])
		dst := make([]byte, last.DecodedEnd-first.Decoded)
		err := decodeLines(nil, stored[first.Stored:last.StoredEnd], dst)
		if want := decoded[first.Decoded:last.DecodedEnd]; !ok1 || !ok2 || err != nil || !bytes.Equal(dst, want) {
			t.Errorf("frames of bytes %d: got %q, %v, want %q", run, dst, err, want)
		}
	}
	if err := decodeLines(nil, stored[:12], make([]byte, 9)); err == nil {
		t.Error("a frame that is too short: got no error")
	}
}

type ranges []byte

func (r ranges) ReadRange(_ context.Context, offset int64, p []byte) error {
	if copy(p, r[offset:]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return nil
}
