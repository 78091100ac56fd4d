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

// An index may claim one digest for two different chunks. Each chunk is then read separately.
// Without CheckSHA both pass, because their CRCs match; with CheckSHA the read fails.
func TestTwoChunksThatClaimOneDigest(t *testing.T) {
	lengths := append(same(4, 1000), same(4, 2000)...) // two shards of one chunk each; the second is longer
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

// claim opens a valid copy of the index of d with another digest for one chunk.
func (d *dataset) claim(t *testing.T, chunk int, digest [32]byte) *chunkindex.Index {
	return d.rewritten(t, func(sections [][]byte) { copy(sections[chunkTable][chunkRow*chunk:], digest[:]) })
}

// straddling returns a dataset in which every second boundary between samples is inside the next
// object. No format writes such an index, but an index may contain it.
func (d *dataset) straddling(t *testing.T) *dataset {
	x := d.rewritten(t, func(sections [][]byte) {
		sections[sampleTables] = nil
		for c := range d.index.Chunks() {
			table, err := d.index.Table(t.Context(), c)
			must(t, err)
			p := d.straddle(table, d.index.Chunk(c))
			binary.LittleEndian.PutUint64(sections[blockOffsets][blocksRow*c:], uint64(len(sections[sampleTables])))
			sections[sampleTables] = append(sections[sampleTables], p.encode()...)
		}
		binary.LittleEndian.PutUint64(sections[blockOffsets][blocksRow*d.index.Chunks():], uint64(len(sections[sampleTables])))
	})
	t.Cleanup(func() { x.Close() })
	return &dataset{store: d.store, index: x, packed: d.packed, start: d.start}
}

// plainTable is a sample table that a test may change.
type plainTable struct{ offsets, lengths, crcs []uint32 }

// straddle moves leading bytes of every second sample to the sample before it, as long as that one
// stays within the longest sample of the dataset.
func (d *dataset) straddle(table *chunkindex.Table, c chunkindex.Chunk) (p plainTable) {
	for i := range table.Len() {
		p.offsets, p.lengths, p.crcs = append(p.offsets, table.Offset(i)), append(p.lengths, table.Length(i)), append(p.crcs, table.CRC32C(i))
	}
	for i := 1; i < table.Len(); i += 2 {
		n := min(p.lengths[i]/2, uint32(d.index.MaxSample())-p.lengths[i-1])
		p.lengths[i-1] += n
		p.offsets[i] += n
		p.lengths[i] -= n
		for j := i - 1; j <= i; j++ {
			p.crcs[j] = checksum(d.packed[d.start[c.First]+int64(p.offsets[j]):][:p.lengths[j]])
		}
	}
	return p
}

// encode encodes a table of adjacent samples as in an index.
func (p plainTable) encode() []byte {
	b := []byte{1, 0, 0, 0} // all gaps are equal, and 0
	for _, n := range p.lengths {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, crc := range p.crcs {
		b = binary.LittleEndian.AppendUint32(b, crc)
	}
	return b
}

// Constants of a segment and of the root: see docs/spec/index-format.md.
const (
	chunkTable   = 1
	sampleTables = 3
	blockOffsets = 4
	digestsOf    = 9

	chunkRow  = 56
	blocksRow = 32
	entries   = 64 // offset of the header's list of sections
	entry     = 24
	header    = entries + 10*entry + 40
	proved    = 32 << 10 // bytes of a page, each with a digest
	rootRow   = 24       // offset of the root's row of the first segment
)

// storedOrder is the order of the sections behind the digests.
var storedOrder = [digestsOf]int{0, 1, 2, 4, 3, 5, 6, 7, 8}

// rewritten opens a valid copy of the index of d, which has one segment, after change has edited its
// sections.
func (d *dataset) rewritten(t *testing.T, change func(sections [][]byte)) *chunkindex.Index {
	t.Helper()
	le := binary.LittleEndian
	old := d.index.Generation()
	stored, _ := d.store.Bytes("set/.millrace/index/" + old)
	root := append([]byte(nil), stored...)
	if n := le.Uint64(root[16:]); n != 1 {
		t.Fatalf("got %d segments, want one", n)
	}
	stored, _ = d.store.Bytes("set/.millrace/segment/" + hex.EncodeToString(root[rootRow:rootRow+32]))
	sections := make([][]byte, digestsOf)
	for i := range sections {
		at := stored[entries+entry*i:]
		sections[i] = append([]byte(nil), stored[le.Uint64(at[8:]):][:le.Uint64(at[16:])]...)
	}
	change(sections)
	head := append([]byte(nil), stored[:header]...)
	var body []byte
	for _, i := range storedOrder {
		body = append(body, sections[i]...)
	}
	var digests []byte
	for i := 0; i < len(body); i += proved {
		sum := sha256.Sum256(body[i:min(len(body), i+proved)])
		digests = append(digests, sum[:]...)
	}
	at := uint64(header + len(digests))
	resident := at
	for _, i := range storedOrder {
		le.PutUint64(head[entries+entry*i+8:], at)
		le.PutUint64(head[entries+entry*i+16:], uint64(len(sections[i])))
		at += uint64(len(sections[i]))
		if i == blockOffsets {
			resident = min(resident+(at-resident+proved-1)/proved*proved, uint64(header+len(digests)+len(body)))
		}
	}
	le.PutUint64(head[entries+entry*digestsOf+16:], uint64(len(digests)))
	all := sha256.Sum256(digests)
	copy(head[header-len(all):], all[:])
	segment := sha256.Sum256(head)
	d.store.Set("set/.millrace/segment/"+hex.EncodeToString(segment[:]), append(append(head, digests...), body...))
	copy(root[rootRow:], segment[:])
	le.PutUint64(root[rootRow+32:], at)
	le.PutUint64(root[rootRow+40:], resident)
	sum := sha256.Sum256(root)
	d.store.Set("set/.millrace/index/"+hex.EncodeToString(sum[:]), root)

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
