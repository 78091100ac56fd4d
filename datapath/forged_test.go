package datapath

import (
	"testing"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// forge changes five bytes without changing the CRC-32C: it adds the generator polynomial.
func forge(b []byte) {
	for i, bits := 0, uint64(0x82F63B78)<<1|1; i < 5; i++ {
		b[i] ^= byte(bits >> (8 * i))
	}
}

// Samples from another gateway are compared with their CRC-32C, which detects faults but not
// forgery, as docs/cluster.md says under Security. A whole chunk has a SHA-256, which detects
// forgery.
func TestForgeryBySamplesIsNotFound(t *testing.T) {
	d := newDataset(t, 83, same(60, 900), 60, 8<<10)
	forged := func(_ *peer.Query, dst [][]byte) { forge(dst[0]) }
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, d, d.plan(t, shuffle.None, 0), 2, Config{CheckSHA: true, NoPrefetch: true, CarryBytes: -1}, 1<<20)
		m := f.members[0]
		m.breaks(func(int, *peer.Query) (wireFault, error) { return wireFault{spoil: forged}, nil })
		wrong := 0
		for n := range uint64(60) {
			chunks := d.ranges(t, []uint64{n})
			body, err := m.source.Read(t.Context(), shuffle.Cursor{}, chunks)
			must(t, err)
			if d.check(chunks, body) != nil {
				wrong++
			}
			body.Close()
		}
		if wrong == 0 || m.lies() != 0 {
			t.Errorf("got %d forged samples and %d detected: update docs/cluster.md", wrong, m.lies())
		}
		desc := d.index.Chunk(0)
		whole := make([]byte, desc.Length)
		body, err := f.members[1].source.Read(t.Context(), shuffle.Cursor{}, []batch.ChunkRanges{{
			Chunk: 0, Ranges: []batch.Range{{Length: uint32(desc.Length), CRC32C: desc.CRC32C}},
		}})
		must(t, err)
		copy(whole, body.Segments[0])
		body.Close()
		if !m.source.intact(desc, whole, checksum(whole)) {
			t.Error("a whole chunk: got it refused, want it taken")
		}
		if forge(whole); checksum(whole) != desc.CRC32C || m.source.intact(desc, whole, checksum(whole)) {
			t.Error("a whole chunk that is forged: got it taken, want it refused")
		}
	})
}
