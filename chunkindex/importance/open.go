package importance

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/shuffle"
)

// copySuffix is the suffix of local copies.
const copySuffix = ".weights"

// Open downloads a snapshot to a local file, verifies all of it, and opens it. generation is the
// dataset's generation. first contains the prefix sums of the chunks' sample counts; the snapshot
// shares the slice and does not modify it. Open returns ErrNoSnapshot if the bucket does not have
// the snapshot, ErrGeneration if the snapshot is for other data, and ErrCorrupt if it does not
// match its name or the dataset.
func (l *Log) Open(ctx context.Context, digest, generation string, first []uint64) (*Snapshot, error) {
	s, err := l.open(ctx, digest, generation, first)
	if err != nil {
		return nil, fmt.Errorf("importance %.12s: %w", digest, err)
	}
	return s, nil
}

func (l *Log) open(ctx context.Context, digest, generation string, first []uint64) (*Snapshot, error) {
	if !isDigest(digest) {
		return nil, ErrNoSnapshot
	}
	if err := checkFirst(first); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	want := snapshotIdentity{digest, generation, first}
	local := ""
	if l.cfg.CacheDir != "" {
		local = filepath.Join(l.cfg.CacheDir, digest+copySuffix)
		s, err := openLocal(ctx, local, want)
		if err == nil || errors.Is(err, ErrGeneration) || ctx.Err() != nil {
			return s, err
		}
	}
	obj, err := l.cfg.Reader.Stat(ctx, l.snapshotKey(digest))
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrNoSnapshot, err)
	}
	if err != nil {
		return nil, err
	}
	var s *Snapshot
	if err = l.checkObject(ctx, obj, want); err == nil {
		s, err = l.download(ctx, obj, local, want)
	}
	if errors.Is(err, ErrCorrupt) {
		return nil, fmt.Errorf("%s: %w (remove the object, and freeze again)", obj.Key, err)
	}
	return s, err
}

// snapshotIdentity is the expected identity of a snapshot.
type snapshotIdentity struct {
	digest, generation string
	first              []uint64
}

// check compares a header with the identity.
func (w snapshotIdentity) check(h *head, size int64) error {
	if h.Generation.String() != w.generation {
		return fmt.Errorf("%w: the snapshot belongs to generation %.12s", ErrGeneration, h.Generation)
	}
	return h.fits(w.first, size)
}

// readHead reads the header of a snapshot of this size by a function that reads its first bytes.
func readHead(size int64, read func(b []byte) error) (*head, error) {
	if size < snapshotHeader {
		return nil, corrupt("invalid size of a snapshot: %d bytes", size)
	}
	b := make([]byte, snapshotHeader)
	if err := read(b); err != nil {
		return nil, err
	}
	return decodeHead(b)
}

// headOf reads the header of a stored snapshot.
func (l *Log) headOf(ctx context.Context, obj objstore.Object) (*head, error) {
	return readHead(obj.Size, func(b []byte) error { return l.cfg.Reader.ReadRange(ctx, obj.Ref(), 0, b) })
}

// checkObject checks the header of an object before downloading it.
func (l *Log) checkObject(ctx context.Context, obj objstore.Object, want snapshotIdentity) error {
	h, err := l.headOf(ctx, obj)
	if err != nil {
		return err
	}
	return want.check(h, obj.Size)
}

func openLocal(ctx context.Context, path string, want snapshotIdentity) (*Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	s, err := parse(ctx, f, want)
	if err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// download copies an object to a new file and renames the file to path. If path is empty, download
// unlinks the file first, so that a killed process leaves no file behind.
func (l *Log) download(ctx context.Context, obj objstore.Object, path string, want snapshotIdentity) (s *Snapshot, err error) {
	if path != "" {
		prune(filepath.Dir(path))
	}
	f, err := l.tempFile()
	if err != nil {
		return nil, err
	}
	if path == "" {
		err = os.Remove(f.Name())
	}
	if err == nil {
		err = l.copyTo(ctx, obj, f)
	}
	if err == nil {
		s, err = parse(ctx, f, want)
	}
	if err == nil && path != "" {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return s, nil
}

// Limits of the local copies of snapshots. A job that samples by importance creates one copy per
// epoch.
const (
	copies     = 8 // number of copies to retain
	tempPrefix = "millrace-weights-"
	abandoned  = 24 * time.Hour // age at which a partial file counts as abandoned
)

// prune removes the oldest copies and abandoned partial files. Open files remain readable. prune
// ignores errors, because a remaining file only uses disk space.
func prune(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	type agedFile struct {
		path string
		at   time.Time
	}
	var whole []agedFile
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue
		}
		file := agedFile{filepath.Join(dir, e.Name()), info.ModTime()}
		switch {
		case filepath.Ext(e.Name()) == copySuffix:
			whole = append(whole, file)
		case strings.HasPrefix(e.Name(), tempPrefix) && time.Since(file.at) > abandoned:
			_ = os.Remove(file.path)
		}
	}
	slices.SortFunc(whole, func(a, b agedFile) int { return a.at.Compare(b.at) })
	for _, file := range whole[:max(0, len(whole)+1-copies)] {
		_ = os.Remove(file.path)
	}
}

func (l *Log) copyTo(ctx context.Context, obj objstore.Object, f *os.File) error {
	b := make([]byte, min(obj.Size, 4<<20))
	for at := int64(0); at < obj.Size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), obj.Size-at)]
		if err := l.cfg.Reader.ReadRange(ctx, obj.Ref(), at, b); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}

// parse verifies all of a file. On success, the snapshot owns the file.
func parse(ctx context.Context, f *os.File, want snapshotIdentity) (*Snapshot, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(sum, f, 4<<20)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if found := hex.EncodeToString(sum.Sum(nil)); found != want.digest {
		return nil, corrupt("its bytes have the digest %.12s", found)
	}
	return parseContent(ctx, f, info.Size(), want)
}

// file is the file from which a snapshot is read.
type file interface {
	io.ReaderAt
	io.Closer
}

// parseContent validates everything in a file except its digest.
func parseContent(ctx context.Context, f file, size int64, want snapshotIdentity) (*Snapshot, error) {
	h, err := readHead(size, func(b []byte) error {
		_, err := f.ReadAt(b, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := want.check(h, size); err != nil {
		return nil, err
	}
	s := &Snapshot{file: f, size: size, digest: want.digest, head: h, first: want.first}
	s.cache.chunks = map[int]*block{}
	if err := s.readTables(); err != nil {
		return nil, err
	}
	return s, s.readBlocks(ctx)
}

// readTables reads the data that stays in memory.
func (s *Snapshot) readTables() error {
	h := s.head
	b := make([]byte, h.blocks()-snapshotHeader)
	if _, err := s.file.ReadAt(b, snapshotHeader); err != nil {
		return err
	}
	plan, table := b[:h.Plan], b[h.Plan:]
	if crc32.Checksum(plan, castagnoli()) != h.PlanCRC || crc32.Checksum(table, castagnoli()) != h.TableCRC {
		return corrupt("checksum of the plan or the chunk table is wrong")
	}
	s.plan = string(plan)
	if err := checkPlan(s.plan); err != nil {
		return corrupt("%w", err)
	}
	rows := make([]chunkEntry, h.Chunks)
	if _, err := binary.Decode(table, binary.LittleEndian, rows); err != nil {
		return err
	}
	s.totals, s.crcs = make([]uint64, h.Chunks), make([]uint32, h.Chunks)
	s.offsets = make([]int64, h.Chunks+1)
	s.offsets[0] = h.blocks()
	for i, row := range rows {
		n := uint64(row.Samples)
		if n != s.first[i+1]-s.first[i] {
			return corrupt("chunk %d has %d samples instead of %d", i, n, s.first[i+1]-s.first[i])
		}
		s.totals[i], s.crcs[i] = row.Total, row.CRC
		s.offsets[i+1] = s.offsets[i] + blockSize(n)
	}
	return nil
}

// readBlocks checks every chunk's samples against the chunk's totals, and the totals against the
// header.
func (s *Snapshot) readBlocks(ctx context.Context) error {
	h := s.head
	stats := shuffle.NewWeightStats(h.Samples, h.Total)
	var total, hot uint64
	coldest, hottest := ^uint32(0), uint32(0) // lowest weight of a hot sample, and highest weight of any other sample
	for i := range s.totals {
		b, err := s.read(ctx, i)
		if err != nil {
			return err
		}
		hot += b.hot.Count()
		for k, w := range b.weights {
			if b.hot.Has(uint64(k)) {
				coldest = min(coldest, w)
			} else {
				hottest = max(hottest, w)
			}
		}
		s.repeat(b)
		stats.Add(b.weights)
		total += s.totals[i]
	}
	if total != h.Total || hot != h.Hot || hot > 0 && coldest < hottest {
		return corrupt("%d hot samples and a total weight of %d, but the header has %d and %d", hot, total, h.Hot, h.Total)
	}
	s.coverage, s.effective = stats.Coverage(), stats.EffectiveSamples()
	return nil
}
