package build

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// TestCutter_LongGapClosesTheChunk checks that the cutter holds the gap between two samples until
// it knows the second sample's chunk, up to a limit.
func TestCutter_LongGapClosesTheChunk(t *testing.T) {
	for _, piece := range []int{1 << 20, 3 << 20} {
		var lengths []int64
		c := newCutter(layout.MaxChunkSize, func(r *layout.ChunkRecord) error { lengths = append(lengths, r.Length); return nil })
		sample := func(key string) {
			s := &format.Sample{Key: key}
			if err := errors.Join(c.Data(s, make([]byte, 512)), c.End(s)); err != nil {
				t.Fatal(err)
			}
		}
		gap := func(n int) {
			for ; n > 0; n -= piece {
				if err := c.Gap(make([]byte, min(n, piece))); err != nil {
					t.Fatal(err)
				}
			}
		}
		sample("a")
		gap(maxHold - 1<<20)
		sample("b")
		gap(maxHold + 1)
		sample("c")
		gap(maxHold + 1)
		if err := c.finish(); err != nil {
			t.Fatal(err)
		}
		if want := []int64{maxHold - 1<<20 + 1024, 512}; fmt.Sprint(lengths) != fmt.Sprint(want) || max(cap(c.hold), cap(c.gap)) > 3*maxHold/2 {
			t.Errorf("in pieces of %d: got chunks of %v and %d bytes held, want %v", piece, lengths, max(cap(c.hold), cap(c.gap)), want)
		}
	}
}

// described is the frame list of a shard with a single frame. Each chunk has this number of bytes
// of parameters.
type described int

func (d described) At(int64) (codec.Frame, bool) {
	return codec.Frame{StoredEnd: 1, DecodedEnd: 1 << 20}, true
}

func (d described) Keep(int64, [4]int64) {}

func (d described) Params(int64, int64) ([]byte, []rows.Range) { return make([]byte, d), nil }

// TestCutter_LimitsParameters checks that the length of a chunk's decoding parameters is limited,
// and that the scan reports longer parameters.
func TestCutter_LimitsParameters(t *testing.T) {
	for params, refused := range map[int]bool{layout.MaxTable: false, layout.MaxTable + 1: true} {
		c := newCutter(1<<20, func(*layout.ChunkRecord) error { return nil })
		c.codec, c.frames = codec.Arrow, described(params)
		s := &format.Sample{Key: "a"}
		err := errors.Join(c.Data(s, make([]byte, 10)), c.End(s), c.finish())
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "choose a smaller --chunk-size, or write the file again in smaller record batches") {
			t.Errorf("%d bytes of parameters: got %v", params, err)
		}
	}
}

func TestCutter_LimitsSampleLength(t *testing.T) {
	c := newCutter(1<<20, func(*layout.ChunkRecord) error { return nil })
	s := &format.Sample{Key: "many members"}
	if err := c.Data(s, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	s.Ahead = format.MaxSample - 1000
	if err := c.Data(s, nil); err != nil {
		t.Errorf("the longest: got %v", err)
	}
	s.Ahead++
	var where *format.Error
	if err := c.Data(s, nil); !errors.As(err, &where) || where.Name != "many members" {
		t.Errorf("one byte longer: got %v, want one that names the sample", err)
	}
}
