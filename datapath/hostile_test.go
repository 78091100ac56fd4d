package datapath

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// An index may claim one digest for two chunks that differ. Each is read for itself then: without a comparison of
// digests as the CRC says, with one as an error.
func TestTwoChunksThatClaimOneDigest(t *testing.T) {
	lengths := append(same(4, 1000), same(4, 2000)...) // two shards of one chunk, the second is longer
	for check, want := range map[bool]error{false: nil, true: chunkindex.ErrCorrupt} {
		t.Run(fmt.Sprintf("check=%v", check), func(t *testing.T) {
			d := newDataset(t, 53, lengths, 4, 1<<20)
			x := d.claim(t, 1, d.index.Chunk(0).Digest)
			defer x.Close()
			p := newPath(t, Config{Budget: bud(1 << 20), CheckSHA: check})
			s := p.Open(x, d.store, "set/")
			plan := d.plan(t, shuffle.None, 0)
			chunks := d.ranges(t, plan.Epoch(0).Append(nil, 0, 8))
			body, err := s.Read(t.Context(), shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 8, BatchSize: 8}, chunks)
			if !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
			if err == nil {
				must(t, d.check(chunks, body))
				body.Close()
			}
		})
	}
}

// claim opens the index of d with another digest for a chunk, sound in everything else.
func (d *dataset) claim(t *testing.T, chunk int, digest [32]byte) *chunkindex.Index {
	return d.rewritten(t, func(section func(int) []byte) { copy(section(chunkTable)[64*chunk:], digest[:]) })
}

// straddling makes every other sample of a chunk end in the object after its own: the index of no format says such a thing, but one may.
func (d *dataset) straddling(t *testing.T) *dataset {
	x := d.rewritten(t, func(section func(int) []byte) {
		b := section(sampleTables)
		for c := range d.index.Chunks() {
			n := int(d.index.Chunk(c).Samples)
			d.straddle(b[:12*n], d.index.Chunk(c))
			binary.LittleEndian.PutUint32(b[12*n:], checksum(b[:12*n]))
			b = b[12*n+4:]
		}
	})
	t.Cleanup(func() { x.Close() })
	return &dataset{store: d.store, index: x, packed: d.packed, start: d.start}
}

// straddle moves bytes of samples to the one before where that stays shorter than the longest of all.
func (d *dataset) straddle(table []byte, c chunkindex.Chunk) {
	le := binary.LittleEndian
	for ; len(table) >= 24; table = table[24:] {
		first, second := le.Uint32(table[4:]), le.Uint32(table[16:])
		n := min(second/2, uint32(d.index.MaxSample())-first)
		le.PutUint32(table[4:], first+n)
		le.PutUint32(table[12:], le.Uint32(table[12:])+n)
		le.PutUint32(table[16:], second-n)
		for _, entry := range [][]byte{table, table[12:]} {
			at := d.start[c.First] + int64(le.Uint32(entry))
			le.PutUint32(entry[8:], checksum(d.packed[at:][:le.Uint32(entry[4:])]))
		}
	}
}

// Sections of an index: see docs/index-format.md.
const (
	chunkTable   = 2
	sampleTables = 4
)

// rewritten opens the index of d after a change to sections of it, sound in everything else.
func (d *dataset) rewritten(t *testing.T, change func(section func(int) []byte)) *chunkindex.Index {
	t.Helper()
	const header, entry = 64 + 10*24 + 8, 24
	old := d.index.Generation()
	stored, _ := d.store.Bytes("set/.millrace/index/" + old)
	b := append([]byte(nil), stored...)
	section := func(n int) []byte {
		table := b[64+n*entry:]
		off, length := binary.LittleEndian.Uint64(table[8:]), binary.LittleEndian.Uint64(table[16:])
		return b[off : off+length]
	}
	change(section)
	binary.LittleEndian.PutUint32(b[64+chunkTable*entry+4:], checksum(section(chunkTable)))
	binary.LittleEndian.PutUint32(b[header-8:], checksum(b[:header-8]))
	foot := len(b) - 48
	sum := sha256.Sum256(b[:foot])
	copy(b[foot:], sum[:])
	d.store.Set("set/.millrace/index/"+hex.EncodeToString(sum[:]), b)

	var bound []byte
	must(t, d.store.List(t.Context(), "set/.millrace/binding/"+old, func(o objstore.Object) error {
		stored, _ := d.store.Bytes(o.Key)
		bound = append([]byte(nil), stored...)
		return nil
	}))
	copy(bound[8:], sum[:])
	end := len(bound) - sha256.Size
	seal := sha256.Sum256(bound[:end])
	copy(bound[end:], seal[:])
	d.store.Set("set/.millrace/binding/"+hex.EncodeToString(sum[:])+"-"+hex.EncodeToString(seal[:]), bound)

	x, err := chunkindex.Open(t.Context(), d.store, "set/", chunkindex.OpenOptions{Generation: hex.EncodeToString(sum[:]), CacheDir: t.TempDir()})
	must(t, err)
	return x
}
