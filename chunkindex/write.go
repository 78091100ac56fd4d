package chunkindex

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/millrace-data/millrace/internal/tempfile"
)

// meta is what an index says of the dataset as a whole.
type meta struct {
	Format    string          `json:"format"`
	Scanner   int             `json:"scanner"`          // version of the rules by which samples were found
	Cutter    int             `json:"cutter,omitempty"` // how often the rules by which chunks are cut had changed
	ChunkSize int64           `json:"chunk_size"`
	Defaults  Defaults        `json:"defaults"`
	Framing   json.RawMessage `json:"framing,omitempty"` // constants of formats that need any
	Classes   []string        `json:"classes,omitempty"` // names of class folders
	Overlap   int64           `json:"overlap,omitempty"` // bytes that a sample may share with the one before
}

// shardScan is one shard on its way into an index.
type shardScan struct {
	key  string
	size int64
	scan scanned // of this shard, or of the run that begins with it; nil: it lies in a run that began before
}

// built is an index file that was written. It has no name, and belongs to whoever had it written.
type built struct {
	file       *os.File
	size       int64
	generation string
}

// sectionWriter writes one section at its place, front to back.
type sectionWriter struct {
	buf *bufio.Writer
	n   int64
}

func newSectionWriter(f *os.File, s section) *sectionWriter {
	return &sectionWriter{buf: bufio.NewWriterSize(io.NewOffsetWriter(f, s.offset), 64<<10)}
}

func (w *sectionWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	return w.buf.Write(p)
}

// indexWriter puts the scans of all shards together. It holds no more than one chunk's record in memory.
type indexWriter struct {
	dir    string
	file   *os.File
	head   header
	out    [numSections]*sectionWriter
	hashes *hashSorter
	tmp    []byte
	sample uint64
	before uint64    // samples of the shard at hand that are written
	stem   int       // of the shard at hand
	blocks [4]uint64 // where the next block of each kind begins in its section
}

// writeIndex writes an index of shards, in the order given, to a new file in dir.
func writeIndex(dir string, m meta, shards []shardScan) (*built, error) {
	f, err := tempfile.File(dir)
	if err != nil {
		return nil, err
	}
	w := &indexWriter{dir: dir, file: f}
	b, err := w.write(m, shards)
	if err != nil {
		f.Close()
		return nil, err
	}
	b.file = f
	return b, nil
}

// encodeMeta leaves the constants of a dataset as its survey wrote them: json.Marshal would write "<" otherwise, and the next
// survey would find others than the index has.
func encodeMeta(m meta) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, err
	}
	if b.Len()-1 > maxMeta {
		return nil, fmt.Errorf("what is the same for all samples, such as names and types of columns, takes %d bytes of an index, which can hold %d: write the dataset with fewer columns, or shorter names", b.Len()-1, maxMeta)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (w *indexWriter) write(m meta, shards []shardScan) (*built, error) {
	metaJSON, err := encodeMeta(m)
	if err != nil {
		return nil, err
	}
	w.head.shards = uint64(len(shards))
	var table int64
	for _, s := range shards {
		if s.scan != nil {
			w.head.join(s.scan.totals())
		}
		table += 12 + int64(len(s.key))
	}
	if w.head.chunks > maxChunks || w.head.shards > maxShards {
		return nil, fmt.Errorf("%d chunks in %d shards are beyond the limits: choose larger chunks", w.head.chunks, w.head.shards)
	}
	w.head.place(int64(len(metaJSON)), table)
	for i := range w.out[:secDigests] {
		w.out[i] = newSectionWriter(w.file, w.head.sections[i])
	}
	if w.hashes, err = newHashSorter(w.dir, w.head.hashed()); err != nil {
		return nil, err
	}
	defer w.hashes.close()
	w.out[secMeta].Write(metaJSON)
	for i, s := range shards {
		if err := w.shard(uint32(i), s); err != nil {
			return nil, fmt.Errorf("shard %s: %w", s.key, err)
		}
	}
	w.blockOffsets()
	if err := w.hashes.write(w.out[secHash]); err != nil {
		return nil, err
	}
	return w.finish()
}

// shard writes what is known of one shard. Errors of the buffered writers stick and are found by finish.
func (w *indexWriter) shard(n uint32, s shardScan) error {
	w.before, w.stem = 0, 0
	if s.scan != nil {
		if err := s.scan.take(func(r *chunkRecord) error { return w.record(n, s.key, r) }); err != nil {
			return err
		}
	}
	b := binary.LittleEndian.AppendUint64(w.tmp[:0], uint64(s.size))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s.key)))
	b = binary.LittleEndian.AppendUint16(b, uint16(w.stem))
	w.tmp = append(b, s.key...)
	w.out[secShards].Write(w.tmp)
	return nil
}

// record writes what is known of one chunk of the scan that begins with a shard.
func (w *indexWriter) record(shard uint32, key string, r *chunkRecord) error {
	b := append(w.tmp[:0], r.digest[:]...)
	b = binary.LittleEndian.AppendUint32(b, r.crc)
	b = binary.LittleEndian.AppendUint32(b, r.samples)
	b = binary.LittleEndian.AppendUint32(b, uint32(r.length))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.extents)))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.codec))
	b = binary.LittleEndian.AppendUint32(b, uint32(r.skip))
	w.out[secChunks].Write(b)
	b = b[:0]
	for _, e := range r.extents {
		b = binary.LittleEndian.AppendUint32(b, shard+uint32(e.Shard))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.Length))
	}
	w.out[secExtents].Write(b)
	w.tmp = b
	w.blockOffsets()
	for i, block := range [][]byte{r.table, r.names, r.parts, r.params} {
		w.out[blockSections()[i]].Write(block)
		w.blocks[i] += uint64(len(block))
	}
	if len(r.names) == 0 {
		w.stem = r.stem
	}
	first, rule := w.sample, keyRule{key[:r.stem], w.before}
	w.sample += uint64(r.samples)
	w.before += uint64(r.samples)
	if w.head.hashed() == 0 {
		return nil
	}
	return eachKey(r.names, r.samples, rule, func(i uint32, key []byte) error {
		return w.hashes.add(hashKey(key), first+uint64(i))
	})
}

// blockOffsets says where the next chunk's blocks begin.
func (w *indexWriter) blockOffsets() {
	w.tmp = w.tmp[:0]
	for _, at := range w.blocks {
		w.tmp = binary.LittleEndian.AppendUint64(w.tmp, at)
	}
	w.out[secBlocks].Write(w.tmp)
}

// finish writes header and digests around the sections.
func (w *indexWriter) finish() (*built, error) {
	for i, s := range w.out[:secDigests] {
		if err := s.buf.Flush(); err != nil {
			return nil, err
		}
		if s.n != w.head.sections[i].length {
			return nil, fmt.Errorf("section %d has %d bytes, not %d", i+1, s.n, w.head.sections[i].length)
		}
	}
	size := w.head.size()
	digests, err := sumPages(w.file, w.head.sections[secDigests].end(), size)
	if err != nil {
		return nil, err
	}
	w.head.digest = sha256.Sum256(digests)
	head := w.head.encode()
	if _, err := w.file.WriteAt(append(head, digests...), 0); err != nil {
		return nil, err
	}
	generation := sha256.Sum256(head)
	return &built{size: size, generation: hex.EncodeToString(generation[:])}, nil
}
