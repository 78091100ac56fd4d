package chunkindex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// OpenOptions configures Open.
type OpenOptions struct {
	Name       string     // index name, for a prefix with several; empty: the default index
	Generation string     // empty: the generation that the pointer names
	CacheDir   string     // directory for local copies; empty: a temporary file
	Tables     TableCache // nil: no cache, every Table call reads the index
	MaxBytes   int64      // reject larger indexes; 0: no limit
}

// Open reads the dataset's pointer, then downloads and verifies the index. For a large index, it
// downloads only the resident sections, and fetches and verifies other pages on first use. prefix
// is the dataset's location in the store: empty, or ending in a slash. Open returns ErrVersion for
// a newer format, ErrOldVersion for an older one, and ErrCorrupt for a digest mismatch.
func Open(ctx context.Context, store objstore.Store, prefix string, opt OpenOptions) (*Index, error) {
	x, err := open(ctx, store, prefix, opt)
	if err != nil {
		return nil, fmt.Errorf("open index of %q: %w", prefix, layout.Advise(prefix, opt.Name, err))
	}
	return x, nil
}

func open(ctx context.Context, store objstore.Store, prefix string, opt OpenOptions) (*Index, error) {
	var bindingKey, data string
	var links bool
	generation := opt.Generation
	if generation == "" {
		p, err := requirePointer(ctx, store, prefix, opt.Name)
		if err != nil {
			return nil, err
		}
		generation, bindingKey, links, data = p.Generation, layout.BindingObject(prefix, p.Generation, p.Binding), p.Links, p.Data
	} else {
		if !layout.IsDigest(generation) {
			return nil, fmt.Errorf("generation %q: %w", generation, objstore.ErrNotFound)
		}
		var err error
		if bindingKey, err = newestBinding(ctx, store, prefix, opt.Name, generation); err != nil {
			return nil, err
		}
	}
	x, err := fetchIndex(ctx, store, prefix, generation, opt)
	if err != nil {
		return nil, err
	}
	if err := x.bind(ctx, store, bindingKey); err != nil {
		x.Close()
		return nil, err
	}
	x.tables, x.links, x.data, x.binding, x.name = opt.Tables, links, data, bindingKey, opt.Name
	return x, nil
}

// WholeIndex is the largest size at which Open downloads the whole index in one read. For larger
// indexes, Open downloads only the resident sections.
const WholeIndex = 16 << 20

// indexSource is the stored index object. Page digests verify everything read from it, even if the
// object changes between reads.
type indexSource struct {
	store           objstore.Store
	key, generation string
	limit           int64 // reject larger indexes; 0: no limit
}

func (s *indexSource) read(ctx context.Context, off int64, b []byte) error {
	if err := s.store.ReadRange(ctx, objstore.Ref{Key: s.key}, off, b); err != nil {
		return &FetchError{err}
	}
	return nil
}

// FetchError is a store error while reading part of an index.
type FetchError struct{ err error }

func (e *FetchError) Error() string { return "fetch a part of the index: " + e.err.Error() }

func (e *FetchError) Unwrap() error { return e.err }

// fetchIndex opens the local copy of an index, creating it if necessary.
func fetchIndex(ctx context.Context, store objstore.Store, prefix, generation string, opt OpenOptions) (*Index, error) {
	s := &indexSource{store: store, key: layout.IndexObject(prefix, generation), generation: generation, limit: opt.MaxBytes}
	if opt.CacheDir == "" {
		return s.download(ctx, "", WholeIndex)
	}
	if err := os.MkdirAll(opt.CacheDir, 0o755); err != nil {
		return nil, err
	}
	local := copyOf(opt.CacheDir, generation)
	if x, err := s.openLocal(local); err == nil {
		now := time.Now()
		_ = os.Chtimes(local, now, now) // marks the copy as used for RemoveCopies; an error is ignored because the copy can be downloaded again
		return x, nil
	}
	return s.downloadTo(ctx, local)
}

func (s *indexSource) openLocal(path string) (*Index, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) {
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = s.checkSize(info.Size())
	}
	var x *Index
	if err == nil {
		x, err = parseFile(f, info.Size(), s.generation, s.read, info.Size() <= WholeIndex)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return x, nil
}

// parseFile opens an index file with parseIndex and classifies its errors: format version, store,
// or ErrCorrupt.
func parseFile(f *os.File, size int64, generation string, from fetch, whole bool) (*Index, error) {
	x, err := parseIndex(f, size, generation, from, whole)
	var fetching *FetchError
	if errors.Is(err, ErrVersion) || errors.Is(err, ErrOldVersion) || errors.As(err, &fetching) {
		return nil, fmt.Errorf("index %.12s: %w", generation, err)
	}
	if err != nil {
		return nil, fmt.Errorf("index %.12s: %w: %w", generation, ErrCorrupt, err)
	}
	return x, nil
}

func (s *indexSource) checkSize(size int64) error {
	if s.limit > 0 && size > s.limit {
		return fmt.Errorf("index of %d bytes is larger than the limit of %d", size, s.limit)
	}
	return nil
}

// downloadTo downloads an index object to a temporary file and renames it to path.
func (s *indexSource) downloadTo(ctx context.Context, path string) (*Index, error) {
	f, err := os.CreateTemp(filepath.Dir(path), partialPrefix+"*")
	if err != nil {
		return nil, err
	}
	x, err := s.copyTo(ctx, f, WholeIndex)
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
		return nil, err
	}
	return x, nil
}

// download copies an index object to an unnamed file in dir, so that a killed process leaves no
// file behind. If the object is longer than whole, download copies only the resident sections.
func (s *indexSource) download(ctx context.Context, dir string, whole int64) (*Index, error) {
	f, err := tempfile.File(dir)
	if err != nil {
		return nil, err
	}
	x, err := s.copyTo(ctx, f, whole)
	if err != nil {
		f.Close()
	}
	return x, err
}

func (s *indexSource) copyTo(ctx context.Context, f *os.File, whole int64) (*Index, error) {
	obj, err := s.store.Stat(ctx, s.key)
	if err != nil {
		return nil, err
	}
	if err := s.checkSize(obj.Size); err != nil {
		return nil, err
	}
	if obj.Size > whole {
		if x, err := s.copyResident(ctx, f, obj.Size); x != nil || err != nil {
			return x, err
		}
	}
	in, err := s.store.Open(ctx, obj.Ref(), 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	n, err := io.Copy(f, io.LimitReader(in, obj.Size+1))
	if err != nil {
		return nil, err
	}
	if n != obj.Size {
		return nil, fmt.Errorf("index %.12s: %w: got %d bytes instead of %d", s.generation, objstore.ErrShort, n, obj.Size)
	}
	return parseFile(f, obj.Size, s.generation, s.read, true)
}

// copyResident downloads the part of the index before the blocks: the header, the digests, the
// resident sections and the block offsets. It returns nil for an invalid header, and the caller
// then downloads the whole object.
func (s *indexSource) copyResident(ctx context.Context, f *os.File, size int64) (*Index, error) {
	head := make([]byte, layout.HeaderSize)
	if err := s.read(ctx, 0, head); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(head); hex.EncodeToString(sum[:]) != s.generation {
		return nil, nil
	}
	h, err := layout.DecodeHeader(head, size)
	if err != nil {
		return nil, nil //nolint:nilerr
	}
	sections := h.Sections[layout.SecDigests].End()
	end := min(size, sections+layout.ProofSize*layout.PagesOf(h.Sections[layout.SecBlocks].End()-sections)) // rounded up to whole pages
	pieces := int((end + mostAtOnce - 1) / mostAtOnce)
	err = parallel.Each(ctx, piecesAtOnce, pieces, func(ctx context.Context, _, i int) error {
		off := int64(i) * mostAtOnce
		b := make([]byte, min(mostAtOnce, end-off))
		if err := s.read(ctx, off, b); err != nil {
			return err
		}
		_, err := f.WriteAt(b, off)
		return err
	})
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return nil, err
	}
	return parseFile(f, size, s.generation, s.read, false)
}

// OpenPointer opens the index that a pointer names, for an index run that reuses unchanged shards.
// If the index is longer than whole, OpenPointer downloads only the resident sections to a file in
// dir. CopyBlocks fetches blocks in advance; other blocks are fetched on first read.
func OpenPointer(ctx context.Context, store objstore.Store, prefix string, p layout.Pointer, dir string, whole int64) (*Index, error) {
	source := indexSource{store: store, key: layout.IndexObject(prefix, p.Generation), generation: p.Generation}
	x, err := source.download(ctx, dir, whole)
	if err != nil {
		return nil, err
	}
	if err := x.bind(ctx, store, layout.BindingObject(prefix, p.Generation, p.Binding)); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// OpenFile opens an index file that the caller has just written. On success, the index owns the
// file.
func OpenFile(f *os.File, size int64, generation string) (*Index, error) {
	return parseFile(f, size, generation, nil, false)
}

// bind sets the shards' versions from a binding object.
func (x *Index) bind(ctx context.Context, store objstore.Store, key string) error {
	b, err := layout.ReadBinding(ctx, store, key, x.generation, len(x.shards))
	if err != nil {
		return fmt.Errorf("binding: %w", err)
	}
	for i, v := range b {
		x.shards[i].ETag, x.shards[i].VersionID, x.shards[i].Says = v.ETag, v.ID, v.Says
	}
	return nil
}

// newestBinding returns the key of the generation's newest binding, whether or not the pointer
// still names the generation.
func newestBinding(ctx context.Context, store objstore.Store, prefix, name, generation string) (string, error) {
	p, _, err := layout.ReadPointer(ctx, store, prefix, name)
	if err == nil && p.Generation == generation {
		return layout.BindingObject(prefix, p.Generation, p.Binding), nil
	}
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return "", err
	}
	if err := layout.CheckOwner(ctx, store, prefix, name, generation); err != nil {
		return "", err
	}
	var best objstore.Object
	err = store.List(ctx, layout.BindingObject(prefix, generation, ""), func(o objstore.Object) error {
		if best.Key == "" || o.Modified.After(best.Modified) {
			best = o
		}
		return nil
	})
	if err == nil && best.Key == "" {
		err = fmt.Errorf("generation %.12s: %w", generation, objstore.ErrNotFound)
	}
	return best.Key, err
}
