package chunkindex

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/files"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/jsonl"
	"github.com/millrace-data/millrace/chunkindex/litdata"
	"github.com/millrace-data/millrace/chunkindex/mds"
	"github.com/millrace-data/millrace/chunkindex/records"
	"github.com/millrace-data/millrace/chunkindex/tfrecord"
	"github.com/millrace-data/millrace/chunkindex/tokens"
	"github.com/millrace-data/millrace/chunkindex/webdataset"
	"github.com/millrace-data/millrace/internal/objstore"
)

// formats lists all formats, in the order in which they look at a dataset: those that are surest of themselves first, loose
// objects last.
func formats() []format.Format {
	return []format.Format{
		mds.Format{},
		litdata.Format{},
		webdataset.Tar{},
		tfrecord.TFRecord{},
		jsonl.JSONL{},
		tokens.Tokens{},
		records.Records{},
		files.Files{},
	}
}

// FormatNames are the names of all formats.
func FormatNames() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.Name())
	}
	return names
}

// lookedFor says of each format, after its name, how its shards are recognised.
func lookedFor() []string {
	return []string{
		"mds (an index.json of MosaicML Streaming)",
		"litdata (an index.json of LitData)",
		"tar (names in .tar, .tar.gz, .tgz, .tar.zst)",
		"tfrecord (names in .tfrecord, .tfrecords, or records with masked checksums)",
		"jsonl (names in .jsonl, .ndjson)",
		"tokens (.bin with .idx beside it, or --sequence-length)",
		"records (names in .npy, CIFAR's batches, or --record-size)",
		"files (any other objects, one a sample)",
	}
}

// formatNamed returns the format of this name, nil for one that this program does not know.
func formatNamed(name string) format.Format {
	for _, f := range formats() {
		if f.Name() == name {
			return f
		}
	}
	return nil
}

// listing is a format.Listing of what lies in a store.
type listing struct {
	store   objstore.Store
	prefix  string
	objects []objstore.Object // in byte order of their keys
	seen    []format.Object   // the same, as formats see them
}

func newListing(store objstore.Store, prefix string, objects []objstore.Object) *listing {
	l := &listing{store: store, prefix: prefix, objects: objects}
	for _, o := range objects {
		l.seen = append(l.seen, format.Object{Key: strings.TrimPrefix(o.Key, prefix), Size: o.Size})
	}
	return l
}

func (l *listing) Objects() []format.Object { return l.seen }

func (l *listing) Head(ctx context.Context, key string) ([]byte, error) {
	return l.read(ctx, key, format.HeadSize)
}

func (l *listing) Read(ctx context.Context, key string, most int64) ([]byte, error) {
	b, err := l.read(ctx, key, most+1)
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("object %s is longer than %d bytes", key, most)
	}
	return b, err
}

// read returns the first n decoded bytes of an object, or all there are.
func (l *listing) read(ctx context.Context, key string, n int64) ([]byte, error) {
	in, err := l.store.Open(ctx, objstore.Ref{Key: l.prefix + key}, 0)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", key, err)
	}
	defer in.Close()
	decoded := io.Reader(in)
	if c, _ := codec.Of(key); c != codec.None {
		r, err := codec.NewReader(c, in)
		if err != nil {
			return nil, fmt.Errorf("object %s: %w: name it as it is, leave it out with --match, or have all objects taken as they are with --format files", key, err)
		}
		defer r.Close()
		decoded = r
	}
	b, err := io.ReadAll(io.LimitReader(decoded, n))
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", key, err)
	}
	return b, nil
}
