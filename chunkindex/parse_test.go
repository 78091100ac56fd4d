package chunkindex

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// TestReadExtents_RejectsOverflow checks that the extents of a chunk must match its length even if
// their sum overflows.
func TestReadExtents_RejectsOverflow(t *testing.T) {
	const length = 10
	x := &Index{
		shards:  []Shard{{Key: "a", Size: math.MaxInt64}, {Key: "b", Size: math.MaxInt64}, {Key: "c", Size: 100}},
		lengths: []uint32{length},
		extents: extents{first: []uint64{0, 3}},
	}
	var b []byte
	for shard, n := range []uint64{math.MaxInt64, math.MaxInt64, length + 2} {
		b = binary.LittleEndian.AppendUint64(b, uint64(shard))
		b = binary.LittleEndian.AppendUint64(b, 0)
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	in := newSectionReader(bytes.NewReader(b), layout.Section{Length: int64(len(b))})
	if err := x.readExtents(&Segment{Shards: 3}, in); !errors.Is(err, layout.ErrMalformed) {
		t.Errorf("got %v, want %v", err, layout.ErrMalformed)
	}
}

func TestReadMeta_RequiresDefaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"whole", `{"format":"tar","scanner":1,"chunk_size":1,"defaults":{"shuffle":"slot","window":1,"seed":"0","batch_size":1,"tail":"short"}}`, nil},
		{"batch size of 0", `{"format":"tar","scanner":1,"chunk_size":1,"defaults":{"shuffle":"slot","window":1,"seed":"0","batch_size":0,"tail":"short"}}`, layout.ErrMalformed},
		{"window of 0", `{"format":"tar","scanner":1,"chunk_size":1,"defaults":{"shuffle":"none","window":0,"seed":"0","batch_size":1,"tail":"short"}}`, layout.ErrMalformed},
		{"none", `{"format":"tar","scanner":1,"chunk_size":1}`, layout.ErrMalformed},
	} {
		if err := new(Index).readMeta([]byte(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// readMeta rejects numbers out of range and requires each default. It distinguishes newer metadata
// from malformed metadata.
func TestReadMeta_BoundsItsNumbers(t *testing.T) {
	sound := layout.Meta{Format: "tar", Scanner: 1, ChunkSize: 8 << 20, Defaults: Defaults{Shuffle: "slot", Window: 128, BatchSize: 256, Tail: "short"}}
	for name, c := range map[string]struct {
		change func(m *layout.Meta)
		want   error
	}{
		"sound":                {func(*layout.Meta) {}, nil},
		"largest":              {func(m *layout.Meta) { m.Overlap, m.ChunkSize = layout.MaxChunkSize, layout.MaxChunkSize }, nil},
		"one byte a chunk":     {func(m *layout.Meta) { m.ChunkSize = 1 }, nil},
		"no chunk size":        {func(m *layout.Meta) { m.ChunkSize = 0 }, layout.ErrMalformed},
		"larger chunks":        {func(m *layout.Meta) { m.ChunkSize = layout.MaxChunkSize + 1 }, layout.ErrMalformed},
		"negative overlap":     {func(m *layout.Meta) { m.Overlap = -1 }, layout.ErrMalformed},
		"larger overlap":       {func(m *layout.Meta) { m.Overlap = layout.MaxChunkSize + 1 }, layout.ErrMalformed},
		"no scanner":           {func(m *layout.Meta) { m.Scanner = 0 }, layout.ErrMalformed},
		"negative cutter":      {func(m *layout.Meta) { m.Cutter = -1 }, layout.ErrMalformed},
		"no shuffle":           {func(m *layout.Meta) { m.Defaults.Shuffle = "" }, layout.ErrMalformed},
		"no window":            {func(m *layout.Meta) { m.Defaults.Window = 0 }, layout.ErrMalformed},
		"no batch size":        {func(m *layout.Meta) { m.Defaults.BatchSize = 0 }, layout.ErrMalformed},
		"no tail":              {func(m *layout.Meta) { m.Defaults.Tail = "" }, layout.ErrMalformed},
		"format of the future": {func(m *layout.Meta) { m.Format = "future" }, ErrVersion},
	} {
		m := sound
		c.change(&m)
		b, err := layout.EncodeMeta(m)
		if err != nil {
			t.Fatal(err)
		}
		x := &Index{}
		if err := x.readMeta(b); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		b = append(b[:len(b)-1], `,"future":1}`...)
		if err := x.readMeta(b); !errors.Is(err, ErrVersion) {
			t.Errorf("%s, with a field of the future: got %v, want %v", name, err, ErrVersion)
		}
	}
	long := sound
	long.Classes = []string{strings.Repeat("c", layout.MaxMeta)}
	if _, err := layout.EncodeMeta(long); err == nil || !strings.Contains(err.Error(), "fewer columns") {
		t.Errorf("too long: got %v, want the cure", err)
	}
	short, _ := layout.EncodeMeta(sound)
	sound.Classes = []string{strings.Repeat("c", layout.MaxMeta-len(short)-len(`,"classes":[""]`))}
	if b, err := layout.EncodeMeta(sound); err != nil || len(b) != layout.MaxMeta {
		t.Errorf("longest: got %d bytes, %v, want %d", len(b), err, layout.MaxMeta)
	}
}

// check rejects out-of-range values in each field of a chunk row.
func TestChunkRow_BoundsItsNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *chunkRow)
		want   error
	}{
		"sound":              {func(*chunkRow) {}, nil},
		"longest":            {func(c *chunkRow) { c.length = layout.MaxChunkSize }, nil},
		"most samples":       {func(c *chunkRow) { c.samples, c.length = layout.MaxFrameSamples, layout.MaxFrameSamples }, nil},
		"columns left out":   {func(c *chunkRow) { c.codec, c.extents = codec.Parquet, 9 }, nil},
		"longest skip":       {func(c *chunkRow) { c.codec, c.skip = codec.Gzip, codec.MaxFrame-1 }, nil},
		"no samples":         {func(c *chunkRow) { c.samples = 0 }, layout.ErrMalformed},
		"no bytes":           {func(c *chunkRow) { c.length = 0 }, layout.ErrMalformed},
		"no extents":         {func(c *chunkRow) { c.extents = 0 }, layout.ErrMalformed},
		"longer":             {func(c *chunkRow) { c.length = layout.MaxChunkSize + 1 }, layout.ErrMalformed},
		"more samples":       {func(c *chunkRow) { c.samples, c.length = layout.MaxFrameSamples+1, layout.MaxChunkSize }, layout.ErrMalformed},
		"samples of nothing": {func(c *chunkRow) { c.samples = c.length + 1 }, layout.ErrMalformed},
		"skip as it is":      {func(c *chunkRow) { c.skip = 1 }, layout.ErrMalformed},
		"skip past a frame":  {func(c *chunkRow) { c.codec, c.skip = codec.Gzip, codec.MaxFrame }, layout.ErrMalformed},
		"two ranges of gzip": {func(c *chunkRow) { c.codec, c.extents = codec.Gzip, 2 }, layout.ErrMalformed},
		"codec to come":      {func(c *chunkRow) { c.codec = 99 }, ErrVersion},
	} {
		row := chunkRow{samples: 10, length: 100, extents: 1}
		c.change(&row)
		if err := row.check(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}
