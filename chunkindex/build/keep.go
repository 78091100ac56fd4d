package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Finished scans are stored so that the next run can resume after a kill. A run stores several
// scans per object, once repeating them would cost more than a write. A kill loses the scans that
// are not stored yet, including those in a running write. docs/prepare-data.md promises a loss of
// at most twice these numbers.
const (
	keptMagic  = "MRSCAN04"
	keptBytes  = 32 << 20 // number of bytes of shards to read before their scans are stored
	keptShards = 512      // or number of shards, because tiny shards cost a request each
	maxKept    = 1 << 16  // maximum number of scans in an object that is read
)

// scanName identifies the scan of specific versions of some shards under one version of the rules.
type scanName [sha256.Size]byte

// namedScan is a finished scan that is not stored yet.
type namedScan struct {
	name scanName
	scan *scanFile
}

// scanBatch collects the scans that are stored together next.
type scanBatch struct {
	scans  []namedScan
	bytes  int64 // total bytes of the shards of these scans
	shards int
}

// scanName returns the name of a unit's scan. A scan made by other rules or stored in another
// format has another name and is thus never used.
func (b *builder) scanName(u unit) (name scanName) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%d\n%s\n%d\n%d\n%d\n%q", keptMagic, b.opt.ChunkSize, b.format.Name, b.format.Rules(), cutterChanges, b.found.Overlap, b.found.Framing)
	for i := u.from; i < u.to; i++ {
		o := b.shards[i]
		fmt.Fprintf(sum, "\n%d\n%q\n%q\n%d\n%q", o.Size, o.Key, o.ETag, b.codec(i), b.found.Shards[i].Says)
	}
	sum.Sum(name[:0])
	return name
}

// keep adds a finished scan to the batch, and stores the batch once it is large enough.
func (b *builder) keep(ctx context.Context, u unit, s *scanFile) error {
	size, count := b.bytes(u), u.to-u.from
	if s.size > maxScan(count, size) {
		if b.opt.Share.Parts > 0 {
			return fmt.Errorf("shard %s: its scan has %d bytes, too many to store: run --part rest after the other parts, which scans this shard again", b.shards[u.from].Key, s.size)
		}
		return nil
	}
	name := b.scanName(u)
	b.mu.Lock()
	g := &b.gathered
	g.scans = append(g.scans, namedScan{name, s})
	g.bytes += size
	g.shards += count
	full := b.full()
	b.mu.Unlock()
	if !full {
		return nil
	}
	select { // only one worker stores; the others wait, which limits the number of pending scans
	case b.storing <- struct{}{}:
		defer func() { <-b.storing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var scans []namedScan
	b.mu.Lock()
	if b.full() {
		scans, *g = g.scans, scanBatch{}
	}
	b.mu.Unlock()
	if len(scans) == 0 { // another worker has already stored them
		return nil
	}
	if err := b.storeScans(ctx, scans); err != nil {
		return fmt.Errorf("store scans: %w", err)
	}
	return nil
}

// full reports whether the batch is large enough to store.
func (b *builder) full() bool {
	return b.gathered.bytes >= b.keptBytes || b.gathered.shards >= b.keptShards
}

// storeScans stores scans as one object: magic number, count, name and length of each scan, then
// the scans. The object's key is the SHA-256 of its bytes.
func (b *builder) storeScans(ctx context.Context, scans []namedScan) error {
	head := binary.LittleEndian.AppendUint32([]byte(keptMagic), uint32(len(scans)))
	for _, s := range scans {
		head = binary.LittleEndian.AppendUint64(append(head, s.name[:]...), uint64(s.scan.size))
	}
	all := multiReaderAt{io.NewSectionReader(bytes.NewReader(head), 0, int64(len(head)))}
	for _, s := range scans {
		all = append(all, s.scan.section())
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(all, 0, all.size())); err != nil {
		return err
	}
	key := b.index.Prefix + layout.ScanDir + hex.EncodeToString(sum.Sum(nil))
	if _, err := b.index.Store.Put(ctx, key, all, all.size(), objstore.Condition{}); err != nil {
		return err
	}
	b.mu.Lock()
	b.kept = append(b.kept, key)
	b.mu.Unlock()
	return nil
}

// multiReaderAt concatenates several sources without copying them, because copies of large scans
// would need twice the space.
type multiReaderAt []*io.SectionReader

func (r multiReaderAt) size() (n int64) {
	for _, part := range r {
		n += part.Size()
	}
	return n
}

// ReadAt implements io.ReaderAt.
func (r multiReaderAt) ReadAt(p []byte, off int64) (n int, err error) {
	for _, part := range r {
		if off < part.Size() {
			k, err := part.ReadAt(p[n:], off)
			if n += k; n == len(p) || off+int64(k) < part.Size() {
				return n, err
			}
			off = part.Size()
		}
		off -= part.Size()
	}
	return n, io.EOF
}

// listKept lists the scans that other runs stored, and the notes of parts.
func (b *builder) listKept(ctx context.Context) error {
	var notes []objstore.Object
	err := b.index.Store.List(ctx, b.index.Prefix+layout.ScanDir, func(o objstore.Object) error {
		if strings.HasPrefix(o.Key, b.index.Prefix+layout.ScanDir+partsKey) {
			notes = append(notes, o)
		} else {
			b.kept = append(b.kept, o.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.readNotes(ctx, notes)
}

// takeKept reuses scans that interrupted runs stored for the given units. It returns the other
// units, including those whose stored scan is unusable for any reason.
func (b *builder) takeKept(ctx context.Context, todo []int) ([]int, error) {
	kept := b.kept
	if b.named { // objects that this run does not use may belong to a run for another index of the prefix
		b.kept = nil
	}
	if len(kept) == 0 || len(todo) == 0 {
		return todo, nil
	}
	wanted := make(map[scanName]int, len(todo))
	for _, i := range todo {
		wanted[b.scanName(b.units[i])] = i
	}
	err := parallel.Each(ctx, b.opt.Parallel, len(kept), func(ctx context.Context, worker, n int) error {
		w, err := b.writer(worker)
		if err != nil {
			return err
		}
		begun := w.end
		taken, err := b.readKept(ctx, kept[n], wanted, w)
		if err != nil {
			w.end = begun
			return ctx.Err()
		}
		for i, s := range taken {
			b.takeScan(i, s)
		}
		if b.named && len(taken) > 0 {
			b.mu.Lock()
			b.kept = append(b.kept, kept[n])
			b.mu.Unlock()
		}
		return nil
	})
	return slices.DeleteFunc(todo, func(i int) bool { return b.scans[i] != nil }), err
}

// takeScan uses a stored scan for its unit if the scan is valid.
func (b *builder) takeScan(i int, s *scanFile) {
	u := b.units[i]
	shards := make([]layout.Shard, 0, u.to-u.from)
	for i := u.from; i < u.to; i++ {
		shards = append(shards, layout.Shard{Key: b.key(i), Size: b.shards[i].Size})
	}
	var err error
	if s.sum, err = check(s, shards, b.found.Overlap); err != nil {
		return
	}
	b.mu.Lock()
	had := b.scans[i] != nil
	if !had {
		b.scans[i] = s
		b.report.ReusedShards += len(shards)
	}
	b.mu.Unlock()
	if !had {
		size := b.bytes(u)
		b.step(chunkindex.Progress{Done: size, Kept: size, Shards: len(shards), Samples: s.sum.Samples})
	}
}

// tableRow is a row of the table at the start of an object of scans.
type tableRow struct {
	Name scanName
	Size int64
}

var errKept = errors.New("not a valid object of scans")

// readKept copies the needed scans of an object to w and returns them by unit. It skips all other
// scans.
func (b *builder) readKept(ctx context.Context, key string, wanted map[scanName]int, w *scanWriter) (map[int]*scanFile, error) {
	in, err := b.index.Store.Open(ctx, objstore.Ref{Key: key}, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	sum := sha256.New()
	body := io.TeeReader(in, sum)
	var head struct {
		Magic [len(keptMagic)]byte
		Count uint32
	}
	if err := binary.Read(body, binary.LittleEndian, &head); err != nil {
		return nil, err
	}
	if string(head.Magic[:]) != keptMagic || head.Count > maxKept {
		return nil, errKept
	}
	table := make([]tableRow, head.Count)
	if err := binary.Read(body, binary.LittleEndian, table); err != nil {
		return nil, err
	}
	needed := func(row tableRow) bool { _, ok := wanted[row.Name]; return ok }
	if !slices.ContainsFunc(table, needed) {
		return nil, nil // the rest of the object is not read
	}
	taken := map[int]*scanFile{}
	for _, row := range table {
		if !needed(row) {
			if _, err := io.CopyN(io.Discard, body, row.Size); err != nil {
				return nil, err
			}
			continue
		}
		i := wanted[row.Name]
		if u := b.units[i]; row.Size > maxScan(u.to-u.from, b.bytes(u)) {
			return nil, errKept
		}
		w.begin()
		if _, err := io.CopyN(w, body, row.Size); err != nil {
			return nil, err
		}
		if taken[i], err = w.finish(); err != nil {
			return nil, err
		}
	}
	// Read to the end, so that the digest covers any trailing bytes.
	if _, err := io.CopyN(io.Discard, body, 1); !errors.Is(err, io.EOF) {
		return nil, cmp.Or(err, errKept)
	}
	if key != b.index.Prefix+layout.ScanDir+hex.EncodeToString(sum.Sum(nil)) {
		return nil, errKept
	}
	return taken, nil
}

// removeKept removes the objects from which the run could have resumed. It removes the notes of
// parts last, so that a kill during removal leaves no scans without a note.
func (b *builder) removeKept(ctx context.Context) error {
	if err := b.remove(ctx, b.kept); err != nil {
		return err
	}
	return b.remove(ctx, b.notes)
}

func (b *builder) remove(ctx context.Context, keys []string) error {
	return parallel.Each(ctx, b.opt.Parallel, len(keys), func(ctx context.Context, _, n int) error {
		if err := b.index.Store.Delete(ctx, keys[n]); err != nil {
			return fmt.Errorf("remove scans %s: %w", keys[n], err)
		}
		return nil
	})
}
