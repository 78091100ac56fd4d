package build

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/offsets"
	"github.com/millrace-data/millrace/internal/objstore"
)

// maxSeen limits the memory in which a listing caches object data. Each format reads data beyond
// this limit again.
const maxSeen = 64 << 20

// listing implements format.Listing for a store. It caches the data that it reads, because several
// formats examine each object.
type listing struct {
	store   objstore.Store
	prefix  string
	objects []objstore.Object // in byte order of their keys
	seen    []format.Object   // the same objects in the form that formats use

	mu    sync.Mutex
	begin map[string][]byte // cached first bytes by key
	whole map[string]bool   // objects that are cached completely
	bytes int64             // total size of the cache
}

func newListing(store objstore.Store, prefix string, objects []objstore.Object) *listing {
	l := &listing{store: store, prefix: prefix, objects: objects, begin: map[string][]byte{}, whole: map[string]bool{}}
	for _, o := range objects {
		l.seen = append(l.seen, format.Object{Key: strings.TrimPrefix(o.Key, prefix), Size: o.Size})
	}
	return l
}

func (l *listing) Objects() []format.Object { return l.seen }

// First returns the first n decoded bytes of an object, or the whole decoded object if it is
// shorter.
func (l *listing) First(ctx context.Context, key string, n int64) ([]byte, error) {
	l.mu.Lock()
	b, ok := l.begin[key]
	whole := l.whole[key]
	l.mu.Unlock()
	if ok && (whole || int64(len(b)) >= n) {
		return b[:min(n, int64(len(b)))], nil
	}
	b, err := l.read(ctx, key, n)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if more := int64(len(b) - len(l.begin[key])); l.bytes+more <= maxSeen {
		l.bytes += more
		l.begin[key], l.whole[key] = b, int64(len(b)) < n
	}
	return b, nil
}

// read reads the first n decoded bytes of an object, or the whole object if it is shorter. For a
// short read of an uncompressed object, it requests only that range, because aborting a transfer
// would close the connection.
func (l *listing) read(ctx context.Context, key string, n int64) ([]byte, error) {
	o, ok := offsets.Find(l.seen, key)
	if !ok {
		return nil, fmt.Errorf("read: %w", objstore.ErrNotFound)
	}
	ref := objstore.Ref{Key: l.prefix + key}
	c, _ := codec.Of(key)
	if size := min(n, o.Size); c == codec.None && size <= format.HeadSize {
		b := make([]byte, size)
		if size == 0 {
			return b, nil
		}
		return b, l.store.ReadRange(ctx, ref, 0, b)
	}
	in, err := l.open(ctx, ref, c)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, n))
}

// Open reads the decoded bytes of an object, beginning at an offset.
func (l *listing) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	ref := objstore.Ref{Key: l.prefix + key}
	c, _ := codec.Of(key)
	if c == codec.None {
		return l.store.Open(ctx, ref, offset)
	}
	in, err := l.open(ctx, ref, c)
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, in, offset); err != nil {
		in.Close()
		return nil, err
	}
	return in, nil
}

// open reads an object from its beginning.
func (l *listing) open(ctx context.Context, ref objstore.Ref, c codec.Codec) (io.ReadCloser, error) {
	in, err := l.store.Open(ctx, ref, 0)
	if err != nil || c == codec.None {
		return in, err
	}
	r, err := codec.NewReader(c, in)
	if err != nil {
		in.Close() // opened for reading only, so the error of Close does not matter
		return nil, fmt.Errorf("%w: rename it to match its contents, exclude it with --match, or index all objects unchanged with --format files", err)
	}
	return &decodedObject{r, in}, nil
}

// decodedObject is a reader of a compressed object in the store.
type decodedObject struct {
	*codec.Reader
	stored io.Closer
}

func (d *decodedObject) Close() error {
	d.Reader.Close()
	return d.stored.Close()
}
