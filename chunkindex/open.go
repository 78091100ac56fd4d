package chunkindex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
	Generation string     // digest or its first 32 digits; empty: the generation that the pointer names
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
		var err error
		if generation, err = layout.WholeGeneration(ctx, store, prefix, generation); err != nil {
			return nil, err
		}
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

// WholeIndex is the largest size at which Open downloads the whole index. Of larger indexes, Open
// downloads only the resident sections.
const WholeIndex = 16 << 20

const segmentsAtOnce = 16 // concurrent store reads while an index is opened

// indexSource is a stored index. The root's digest and the page digests verify everything read from
// it, even if an object changes between reads.
type indexSource struct {
	store              objstore.Store
	prefix, generation string
	limit              int64 // reject larger indexes; 0: no limit
	whole              int64 // download whole indexes up to this size
}

// segment returns a function that reads a stored segment.
func (s *indexSource) segment(ref layout.SegmentRef) fetch {
	key := layout.SegmentObject(s.prefix, ref.Name())
	return func(ctx context.Context, off int64, b []byte) error {
		if err := s.store.ReadRange(ctx, objstore.Ref{Key: key}, off, b); err != nil {
			return &FetchError{err}
		}
		return nil
	}
}

// FetchError is a store error while reading part of an index.
type FetchError struct{ err error }

func (e *FetchError) Error() string { return "fetch a part of the index: " + e.err.Error() }

func (e *FetchError) Unwrap() error { return e.err }

// fetchIndex opens the local copy of an index, creating it if necessary.
func fetchIndex(ctx context.Context, store objstore.Store, prefix, generation string, opt OpenOptions) (*Index, error) {
	s := &indexSource{store: store, prefix: prefix, generation: generation, limit: opt.MaxBytes, whole: WholeIndex}
	if opt.CacheDir == "" {
		return s.download(ctx, "")
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
	x, err := s.parseLocal(f)
	if err != nil {
		f.Close()
	}
	return x, err
}

// parseLocal opens a local copy: the root, then its segments.
func (s *indexSource) parseLocal(f *os.File) (*Index, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, layout.RootHeader)
	if _, err := f.ReadAt(head, 0); err != nil {
		return nil, err
	}
	size, err := layout.RootSize(head)
	if err != nil || size > info.Size() {
		return nil, layout.ErrMalformed
	}
	text := make([]byte, size)
	if _, err := f.ReadAt(text, 0); err != nil {
		return nil, err
	}
	root, err := layout.DecodeRoot(text, s.generation)
	if err != nil {
		return nil, err
	}
	if root.Bytes() != info.Size() {
		return nil, layout.ErrMalformed
	}
	if err := s.checkSize(root.Bytes()); err != nil {
		return nil, err
	}
	return s.parse(f, root, text)
}

// parse opens the segments in a local file and makes an index of them. It classifies errors: format
// version, store, or ErrCorrupt. On success, the index owns the file.
func (s *indexSource) parse(f *os.File, root *layout.Root, text []byte) (*Index, error) {
	segments := make([]Segment, len(root.Segments))
	file, base := segmentFile{f, new(recent)}, int64(len(text))
	for i, ref := range root.Segments {
		var err error
		if segments[i], err = file.open(base, ref, s.segment(ref), root.Bytes() <= s.whole); err != nil {
			return nil, s.classify(fmt.Errorf("segment %s: %w", ref.Name(), err))
		}
		base += ref.Size
	}
	x, err := assemble(root, s.generation, segments)
	if err != nil {
		return nil, s.classify(err)
	}
	x.file, x.root = f, text
	return x, nil
}

// classify marks an error as ErrCorrupt, unless its cause is a format version or the store.
func (s *indexSource) classify(err error) error {
	var fetching *FetchError
	if errors.Is(err, ErrVersion) || errors.Is(err, ErrOldVersion) || errors.As(err, &fetching) {
		return fmt.Errorf("index %.12s: %w", s.generation, err)
	}
	return fmt.Errorf("index %.12s: %w: %w", s.generation, ErrCorrupt, err)
}

func (s *indexSource) checkSize(size int64) error {
	if s.limit > 0 && size > s.limit {
		return fmt.Errorf("index of %d bytes is larger than the limit of %d", size, s.limit)
	}
	return nil
}

// downloadTo downloads an index to a temporary file and renames it to path.
func (s *indexSource) downloadTo(ctx context.Context, path string) (*Index, error) {
	f, err := os.CreateTemp(filepath.Dir(path), partialPrefix+"*")
	if err != nil {
		return nil, err
	}
	x, err := s.copyTo(ctx, f)
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

// download copies an index to an unnamed file in dir, so that a killed process leaves no file
// behind.
func (s *indexSource) download(ctx context.Context, dir string) (*Index, error) {
	f, err := tempfile.File(dir)
	if err != nil {
		return nil, err
	}
	x, err := s.copyTo(ctx, f)
	if err != nil {
		f.Close()
	}
	return x, err
}

// copyTo copies an index to a file: the root, then the segments. Of segments of a large index, it
// copies only the resident parts.
func (s *indexSource) copyTo(ctx context.Context, f *os.File) (*Index, error) {
	root, text, err := s.readRoot(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.checkSize(root.Bytes()); err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(text, 0); err != nil {
		return nil, err
	}
	if err := f.Truncate(root.Bytes()); err != nil {
		return nil, err
	}
	type part struct {
		ref           int
		off, to, size int64
	}
	var parts []part
	base := int64(len(text))
	for i, ref := range root.Segments {
		n := ref.Resident
		if root.Bytes() <= s.whole {
			n = ref.Size
		}
		for off := int64(0); off < n; off += mostAtOnce {
			parts = append(parts, part{i, off, base + off, min(mostAtOnce, n-off)})
		}
		base += ref.Size
	}
	err = parallel.Each(ctx, segmentsAtOnce, len(parts), func(ctx context.Context, _, i int) error {
		p := parts[i]
		b := make([]byte, p.size)
		if err := s.segment(root.Segments[p.ref])(ctx, p.off, b); err != nil {
			return err
		}
		_, err := f.WriteAt(b, p.to)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.parse(f, root, text)
}

// readRoot reads and verifies the index object.
func (s *indexSource) readRoot(ctx context.Context) (*layout.Root, []byte, error) {
	obj, err := s.store.Stat(ctx, layout.IndexObject(s.prefix, s.generation))
	if err != nil {
		return nil, nil, err
	}
	text := make([]byte, min(obj.Size, layout.MaxRoot))
	if err := s.store.ReadRange(ctx, obj.Ref(), 0, text); err != nil {
		return nil, nil, err
	}
	root, err := layout.DecodeRoot(text, s.generation)
	if err != nil {
		return nil, nil, s.classify(err)
	}
	return root, text, nil
}

// OpenPointer opens the index that a pointer names, for an index run that reuses unchanged shards.
// If the index is longer than whole, OpenPointer downloads only the resident sections to a file in
// dir. CopyBlocks fetches blocks in advance; other blocks are fetched on first read.
func OpenPointer(ctx context.Context, store objstore.Store, prefix string, p layout.Pointer, dir string, whole int64) (*Index, error) {
	source := indexSource{store: store, prefix: prefix, generation: p.Generation, whole: whole}
	x, err := source.download(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := x.bind(ctx, store, layout.BindingObject(prefix, p.Generation, p.Binding)); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// OpenSegments opens segments that the caller has just written to a file, one after the other. The
// caller closes the file after the last use of an index of these segments.
func OpenSegments(f *os.File, refs []layout.SegmentRef) ([]Segment, error) {
	segments := make([]Segment, len(refs))
	file, base := segmentFile{f, new(recent)}, int64(0)
	for i, ref := range refs {
		var err error
		if segments[i], err = file.open(base, ref, nil, false); err != nil {
			return nil, fmt.Errorf("segment %s: %w", ref.Name(), err)
		}
		base += ref.Size
	}
	return segments, nil
}

// Assemble makes an index of segments that are open: those of OpenSegments, and those of an earlier
// index, which must stay open. It returns the index and its root as stored.
func Assemble(m layout.Meta, segments []Segment) (*Index, []byte, error) {
	meta, err := layout.EncodeMeta(m)
	if err != nil {
		return nil, nil, err
	}
	root := &layout.Root{Meta: meta}
	for _, s := range segments {
		root.Segments = append(root.Segments, s.Ref)
	}
	text, err := root.Encode()
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(text)
	x, err := assemble(root, hex.EncodeToString(sum[:]), segments)
	if err != nil {
		return nil, nil, fmt.Errorf("index %.12x: %w", sum, err)
	}
	x.root = text
	return x, text, nil
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
