package chunkindex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/unnamed"
)

// OpenOptions says where an opened index keeps what it needs.
type OpenOptions struct {
	Name       string     // of the index, where a prefix has several; empty: the default one
	Generation string     // empty: the one that the pointer names
	CacheDir   string     // the index is copied here and read by position; empty: a temporary file
	Tables     TableCache // nil: every Table call reads the file
	MaxBytes   int64      // refuse an index larger than this; 0: take one of any size
}

// Open reads the pointer of a dataset, fetches the index object it names to a local file, checks
// it from end to end, and opens it. prefix is where the dataset lies in the store: empty, or ending in a slash. An
// index of a newer program is ErrVersion, one that does not match its digest ErrCorrupt.
func Open(ctx context.Context, store objstore.Store, prefix string, opt OpenOptions) (*Index, error) {
	x, err := open(ctx, store, prefix, opt)
	if err != nil {
		return nil, fmt.Errorf("open index of %q: %w", prefix, advise(prefix, opt.Name, err))
	}
	return x, nil
}

func open(ctx context.Context, store objstore.Store, prefix string, opt OpenOptions) (*Index, error) {
	var bindingKey string
	var links bool
	generation := opt.Generation
	if generation == "" {
		p, err := wantPointer(ctx, store, prefix, opt.Name)
		if err != nil {
			return nil, err
		}
		generation, bindingKey, links = p.Generation, bindingObject(prefix, p.Generation, p.Binding), p.Links
	} else {
		if !isDigest(generation) {
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
	x.tables, x.links, x.binding, x.name = opt.Tables, links, bindingKey, opt.Name
	return x, nil
}

// fetchIndex opens the local copy of an index, or makes one.
func fetchIndex(ctx context.Context, store objstore.Store, prefix, generation string, opt OpenOptions) (*Index, error) {
	if opt.CacheDir == "" {
		return downloadIndex(ctx, store, prefix, generation, "", "", opt.MaxBytes)
	}
	if err := os.MkdirAll(opt.CacheDir, 0o755); err != nil {
		return nil, err
	}
	local := copyOf(opt.CacheDir, generation)
	if x, err := openLocal(local, generation, opt.MaxBytes); err == nil {
		now := time.Now()
		_ = os.Chtimes(local, now, now) // for RemoveCopies; a copy that looks unused is made again at worst
		return x, nil
	}
	return downloadIndex(ctx, store, prefix, generation, opt.CacheDir, local, opt.MaxBytes)
}

func openLocal(path, generation string, limit int64) (*Index, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	x, err := parseFile(f, generation, limit)
	if err != nil {
		f.Close()
		return nil, err
	}
	return x, nil
}

func parseFile(f *os.File, generation string, limit int64) (*Index, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkSize(info.Size(), limit); err != nil {
		return nil, err
	}
	x, err := parseIndex(f, info.Size(), generation)
	if errors.Is(err, ErrVersion) {
		return nil, fmt.Errorf("index %.12s: %w", generation, err)
	}
	if err != nil {
		return nil, fmt.Errorf("index %.12s: %w: %w", generation, ErrCorrupt, err)
	}
	return x, nil
}

func checkSize(size, limit int64) error {
	if limit > 0 && size > limit {
		return fmt.Errorf("index of %d bytes is larger than the limit of %d", size, limit)
	}
	return nil
}

// downloadIndex copies an index object to a new file in dir, and renames it to path if
// path is not empty; else the file loses its name at once, so that a kill leaves nothing behind.
func downloadIndex(ctx context.Context, store objstore.Store, prefix, generation, dir, path string, limit int64) (*Index, error) {
	key := indexObject(prefix, generation)
	obj, err := store.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := checkSize(obj.Size, limit); err != nil {
		return nil, err
	}
	if path == "" {
		f, err := unnamed.File(dir)
		if err != nil {
			return nil, err
		}
		x, err := copyIndex(ctx, store, obj, f, generation, limit)
		if err != nil {
			f.Close()
		}
		return x, err
	}
	f, err := os.CreateTemp(dir, partialPrefix+"*")
	if err != nil {
		return nil, err
	}
	x, err := copyIndex(ctx, store, obj, f, generation, limit)
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

func copyIndex(ctx context.Context, store objstore.Store, obj objstore.Object, f *os.File, generation string, limit int64) (*Index, error) {
	in, err := store.Open(ctx, obj.Ref(), 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	n, err := io.Copy(f, io.LimitReader(in, obj.Size+1))
	if err != nil {
		return nil, err
	}
	if n != obj.Size {
		return nil, fmt.Errorf("index %.12s: %w: %d bytes came, not %d", generation, objstore.ErrShort, n, obj.Size)
	}
	return parseFile(f, generation, limit)
}

// bind gives the shards the versions that the binding names.
func (x *Index) bind(ctx context.Context, store objstore.Store, key string) error {
	b, err := readBinding(ctx, store, key, x.digest, len(x.shards))
	if err != nil {
		return fmt.Errorf("binding: %w", err)
	}
	for i, v := range b {
		x.shards[i].ETag, x.shards[i].VersionID, x.shards[i].says = v.etag, v.version, v.says
	}
	return nil
}

// newestBinding finds a binding of a generation that the pointer may not name any more.
func newestBinding(ctx context.Context, store objstore.Store, prefix, name, generation string) (string, error) {
	p, _, err := readPointer(ctx, store, prefix, name)
	if err == nil && p.Generation == generation {
		return bindingObject(prefix, p.Generation, p.Binding), nil
	}
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return "", err
	}
	if err := checkOwner(ctx, store, prefix, name, generation); err != nil {
		return "", err
	}
	var best objstore.Object
	err = store.List(ctx, bindingObject(prefix, generation, ""), func(o objstore.Object) error {
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
