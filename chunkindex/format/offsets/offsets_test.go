package offsets_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// one returns a format whose datasets have one shard, "a", with this description.
func one(shard offsets.Shard) format.Format {
	return format.Format{Survey: func(context.Context, format.Listing, format.Options) (*format.Dataset, error) {
		return &format.Dataset{
			Shards: []format.Shard{{Object: format.Object{Key: "a"}}},
			Scan: func(ctx context.Context, _ int, in io.Reader, out format.Sink) error {
				return shard.Scan(format.NewCursor(ctx, format.Object{}, in, out))
			},
		}, nil
	}}
}

// TestScan_FollowsTheTable checks that the scan finds the samples and fields in the table, for any
// samples, headers and field sizes.
func TestScan_FollowsTheTable(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		header := []byte(rapid.StringN(0, 20, 40).Draw(r, "header"))
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 3), 1, 4).Draw(r, "sizes")
		shard := offsets.Shard{Stem: "s", Header: func(b []byte) error {
			if !bytes.Equal(b, header) {
				return errors.New("another header")
			}
			return nil
		}}
		for i, n := range sizes {
			shard.Fields = append(shard.Fields, offsets.Field{Name: fmt.Sprint(i), Size: n})
		}
		var lengths []uint32
		var body []byte
		var want []string
		for range rapid.IntRange(0, 5).Draw(r, "samples") {
			var head, rest []byte
			var fields []string
			for _, n := range sizes {
				field := rapid.SliceOfN(rapid.Byte(), int(n), int(n)).Draw(r, "field")
				if n == 0 {
					field = rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(r, "field of any length")
					head = binary.LittleEndian.AppendUint32(head, uint32(len(field)))
				}
				rest, fields = append(rest, field...), append(fields, fmt.Sprintf("%x", field))
			}
			want = append(want, strings.Join(fields, ","))
			lengths, body = append(lengths, uint32(len(head)+len(rest))), append(append(body, head...), rest...)
		}
		before, err := framing.OffsetTable(header, lengths)
		if err != nil {
			r.Fatal(err)
		}
		b := append(before, body...)
		shard.Samples, shard.Bytes = uint64(len(lengths)), int64(len(b))
		found, err := scantest.Scan(context.Background(), one(shard), format.Options{}, scantest.Objects{"a": b})
		if err != nil {
			r.Fatal(err)
		}
		var got []string
		for _, s := range found["a"] {
			var fields []string
			for _, p := range s.Parts {
				fields = append(fields, fmt.Sprintf("%x", b[s.Offset+p.Offset:][:p.Length]))
			}
			got = append(got, strings.Join(fields, ","))
		}
		if d := cmp.Diff(want, got); d != "" {
			r.Error(d)
		}
	})
}

func TestScan_LimitsSamples(t *testing.T) {
	for want, s := range map[string]offsets.Shard{
		"exceed the limit of a shard":     {Samples: offsets.MaxSamples + 1},
		"does not fit into a shard of 11": {Samples: 1, Bytes: 11},
		"header of 1048577 bytes":         {Samples: 1, Bytes: 1 << 30, Header: func([]byte) error { return nil }},
		"exceed the limit of a sample":    {Samples: 1, Bytes: 1<<30 + 13},
	} {
		first, last := uint32(12), uint32(s.Bytes)
		if s.Header != nil {
			first += 1<<20 + 1
		}
		b := binary.LittleEndian.AppendUint32(nil, 1)
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, first), last)
		_, err := scantest.Scan(context.Background(), one(s), format.Options{}, scantest.Objects{"a": b})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestScan_ReturnsReaderErrors(t *testing.T) {
	err := offsets.Shard{Samples: 1, Bytes: 100}.Scan(format.NewCursor(t.Context(), format.Object{}, scantest.Broken{In: strings.NewReader("")}, scantest.Nothing{}))
	if !errors.Is(err, scantest.ErrBroken) {
		t.Errorf("got %v, want %v", err, scantest.ErrBroken)
	}
}

func TestReadIndex(t *testing.T) {
	read := func(o scantest.Objects) (bool, error) {
		var into struct{ N int }
		return offsets.ReadIndex(context.Background(), o, "n", &into)
	}
	for index, want := range map[string]bool{`{"n": 1}`: true, " \n{\"n\": 1}": true, `{"m": 1}`: false, `[{"n": 1}]`: false, ``: false, `{"m"`: false} {
		if got, err := read(scantest.Objects{"a": nil, "index.json": []byte(index)}); got != want || err != nil {
			t.Errorf("%q: got %v, %v, want %v", index, got, err, want)
		}
	}
	if got, err := read(scantest.Objects{"a/index.json": []byte(`{"n": 1}`)}); got || err != nil {
		t.Errorf("index further down: got %v, %v, want none", got, err)
	}
	if got, err := read(scantest.Objects{"index.json": []byte(`{"n": "x"}`)}); !got || err == nil {
		t.Errorf("index with another type: got %v, %v, want an error", got, err)
	}
	if got, err := read(scantest.Objects{"index.json": []byte(`{"n": [1, 2`)}); !got || err == nil {
		t.Errorf("truncated index: got %v, %v, want an error", got, err)
	}
}
