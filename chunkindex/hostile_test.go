package chunkindex

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memory"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }

// The parser rejects contradictory values even with valid checksums.
func TestParseIndex_RejectsContradictions(t *testing.T) {
	small := smallIndex(t)
	part := func(b []byte, sec int) []byte { return b[le64(b[layout.CountsSize+layout.EntrySize*sec+8:]):] }
	const bytesAt, longestAt = 48, 56
	for name, change := range map[string]func(b []byte){
		"more bytes than the chunks hold": func(b []byte) { put64(b[bytesAt:], 1<<20); put64(b[longestAt:], 1<<20/2) },
		"one byte too many": func(b []byte) {
			put64(b[bytesAt:], le32(part(b, layout.SecChunks)[40:])+le32(part(b, layout.SecChunks)[40+layout.ChunkRow:])+1)
		},
		"fewer bytes than samples":          func(b []byte) { put64(b[bytesAt:], 2); put64(b[longestAt:], 1) },
		"more bytes than samples can be":    func(b []byte) { put64(b[longestAt:], le64(b[bytesAt:])/3-1) },
		"longest longer than any chunk":     func(b []byte) { put64(b[longestAt:], le64(b[bytesAt:])) },
		"bytes beyond 63 bits":              func(b []byte) { put64(b[bytesAt:], 1<<63) },
		"more samples than bytes":           func(b []byte) { binary.LittleEndian.PutUint32(part(b, layout.SecChunks)[36:], 1<<20) },
		"chunk of 2^32 samples":             func(b []byte) { copy(part(b, layout.SecChunks)[36:], "\xff\xff\xff\xff") },
		"chunk of 2^32 extents":             func(b []byte) { copy(part(b, layout.SecChunks)[44:], "\xff\xff\xff\xff") },
		"chunk of 2^32 bytes":               func(b []byte) { copy(part(b, layout.SecChunks)[40:], "\xff\xff\xff\xff") },
		"extent in a shard that is missing": func(b []byte) { part(b, layout.SecExtents)[0] = 2 },
		"extent that wraps":                 func(b []byte) { put64(part(b, layout.SecExtents)[4:], 1<<64-512) },
		"a stem longer than the key":        func(b []byte) { part(b, layout.SecShards)[10] = 9 },
		"a sample without a row":            func(b []byte) { put64(b[layout.CountsSize+layout.EntrySize*layout.SecTables+16:], 11) },
		"shard key with an empty element":   func(b []byte) { copy(part(b, layout.SecShards)[12:], "/.tar") },
	} {
		b := bytes.Clone(small)
		change(segmentBytes(b))
		fixDigests(b)
		var err error
		got := memory.Allocated(func() { _, err = parseAny(t, fileOf(t, b)) })
		if err == nil || got > 1<<20 {
			t.Errorf("%s: got %v after %d bytes allocated", name, err, got)
		}
	}
}

// A chunk of n bytes has at most n samples.
func TestReadChunks_LimitsSamplesToBytes(t *testing.T) {
	for samples, want := range map[uint64]error{10: nil, 11: layout.ErrMalformed} {
		x := &Index{first: make([]uint64, 1)}
		s := &Segment{head: layout.Header{Totals: layout.Totals{Chunks: 1, Extents: 1, Samples: samples, Bytes: 10, Longest: 1}}}
		b := make([]byte, layout.ChunkRow)
		binary.LittleEndian.PutUint32(b[36:], uint32(samples))
		b[40], b[44] = 10, 1
		if err := x.readChunks(s, newSectionReader(bytes.NewReader(b), layout.Section{Length: layout.ChunkRow})); !errors.Is(err, want) {
			t.Errorf("%d samples in 10 bytes: got %v, want %v", samples, err, want)
		}
	}
}

// TestLookup_LimitsEqualHashes checks that a lookup fails early if all keys have the same hash.
func TestLookup_LimitsEqualHashes(t *testing.T) {
	n := 600
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%03d.txt", i))
	}
	store := memstore.New()
	store.Set("a.tar", shards.TarOf(t, names...))
	rep, err := IndexShards(t.Context(), store, "", IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	index := indexBytes(t, store, rep.Generation)
	hashes := section(index, layout.SecHash)
	for sample := range n {
		put64(hashes[layout.PageSize*(sample/layout.PageRecords)+16*(sample%layout.PageRecords):], layout.HashKey([]byte("wanted")))
		put64(hashes[layout.PageSize*(sample/layout.PageRecords)+16*(sample%layout.PageRecords)+8:], uint64(sample))
	}
	fixDigests(index)
	x, err := parseAny(t, fileOf(t, index))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if _, ok, err := x.Lookup(t.Context(), "wanted", ""); ok || !errors.Is(err, layout.ErrMalformed) {
		t.Errorf("got %v, %v, want %v", ok, err, layout.ErrMalformed)
	}
}

// TestOpen_DamagedPointerAndBinding checks that every prefix and every bit flip of a pointer or
// binding returns an error or the original content.
func TestOpen_DamagedPointerAndBinding(t *testing.T) {
	store, rep := smallStore(t)
	each := func(key string) {
		whole, _ := store.Bytes(key)
		whole = bytes.Clone(whole)
		try := func(what string, b []byte) {
			t.Helper()
			store.Set(key, b)
			x, err := Open(t.Context(), store, "", OpenOptions{})
			if err != nil {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, objstore.ErrNotFound) {
					t.Errorf("%s, %s: got %v", key, what, err)
				}
				return
			}
			defer x.Close()
			if x.Generation() != rep.Generation || x.Shard(0).ETag == "" {
				t.Errorf("%s, %s: got generation %s", key, what, x.Generation())
			}
			if strings.HasPrefix(key, layout.BindingDir) {
				t.Errorf("%s, %s: got an index", key, what)
			}
		}
		for n := range whole {
			try(fmt.Sprintf("%d bytes", n), bytes.Clone(whole[:n]))
			for bit := range 8 {
				b := bytes.Clone(whole)
				b[n] ^= 1 << bit
				try(fmt.Sprintf("bit %d of byte %d", bit, n), b)
			}
		}
		store.Set(key, whole)
	}
	each(layout.PointerKey)
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, layout.BindingDir) {
			each(k)
		}
	}
}

// TestOpen_RejectsHugeBinding checks that Open does not read a binding that is too large for its
// number of shards.
func TestOpen_RejectsHugeBinding(t *testing.T) {
	store, rep := smallStore(t)
	text, _ := store.Bytes(layout.PointerKey)
	var p layout.Pointer
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	store.Set(layout.BindingObject("", rep.Generation, p.Binding), make([]byte, 32<<20))
	got := memory.Allocated(func() {
		if _, err := Open(t.Context(), store, "", OpenOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want %v", err, ErrCorrupt)
		}
	})
	if got > 4<<20 {
		t.Errorf("got %d bytes allocated", got)
	}
}
