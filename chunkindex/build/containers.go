package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/internal/objstore"
)

// container is a file type that no format reads. It may contain many samples, or be a compressed
// file.
type container struct {
	name     string
	suffixes []string // suffixes of an object's name or of the name of a folder above it
	at       int      // offset of the magic number
	magic    string   // magic number; empty: none
	packed   bool     // a compressed file
	cure     string
}

// alone is the advice for a container that a format reads only if no other format is present.
const alone = "select only such objects with --match"

// byName begins the advice for a container that is read under another name.
const byName = "let its name end in "

const (
	zarrName  = "zarr"
	zarrGroup = "zarr.json" // present in every directory of a zarr version 3 store
)

// containers lists the known containers. A match by name takes precedence over a match by magic
// number.
func containers() []container {
	const (
		arrays  = "and write each array with numpy.save"
		samples = "and write samples with MDSWriter or webdataset.TarWriter"
		entries = "unpack it, and make shards of the files with millrace pack"
		frames  = "compress it with zstd or gzip instead"
	)
	return []container{
		{"Parquet", nil, 0, "PAR1", false, byName + ".parquet, or name the format (--format parquet)"},
		{"Arrow IPC", nil, 0, "ARROW1", false, byName + ".arrow, or name the format (--format arrow)"},
		{"Feather", nil, 0, "FEA1", false, "read it with pyarrow.feather and write it with pyarrow.parquet"},
		{"ORC", []string{".orc"}, 0, "ORC", false, "read it with pyarrow.orc and write it with pyarrow.parquet"},
		{"Avro", []string{".avro"}, 0, "Obj\x01", false, "read it with fastavro and write it with pyarrow.parquet"},
		{"comma-separated values", []string{".csv", ".tsv", ".tab"}, 0, "", false, alone},
		{"SQLite", []string{".sqlite", ".sqlite3", ".db"}, 0, "SQLite format 3\x00", false, "write its tables as Parquet, as duckdb does"},
		{"HDF5", []string{".h5", ".hdf5", ".hdf"}, 0, "\x89HDF\r\n\x1a\n", false, "read it with h5py, and write each array with numpy.save, or samples with MDSWriter"},
		{"LMDB", []string{".mdb", ".lmdb"}, 16, "\xde\xc0\xef\xbe", false, "read it with lmdb, and write its entries with webdataset.TarWriter"},
		{"ArrayRecord", []string{".array_record", ".arrayrecord"}, 0, "", false, "read it with array_record, and write its records with tf.io.TFRecordWriter"},
		{zarrName, []string{".zarr"}, 0, "", false, "read it with zarr, and write each array with numpy.save"},
		{"Lance", []string{".lance"}, 0, "", false, "read it with lance and write it with pyarrow.parquet"},
		{"FFCV", []string{".beton"}, 0, "", false, "read it with ffcv, and write samples with MDSWriter or webdataset.TarWriter"},
		{"pickled by Python", []string{".pt", ".pth", ".pkl", ".pickle", ".joblib"}, 0, "", false, "load it with torch.load, pickle or joblib if you trust it, " + samples},
		{"netCDF", []string{".nc", ".nc4", ".cdf"}, 0, "", false, "read it with xarray, " + arrays},
		{"MATLAB", []string{".mat"}, 0, "MATLAB 5.0 MAT-file", false, "read it with scipy.io, " + arrays},
		{"a spreadsheet", []string{".xlsx", ".xls", ".ods"}, 0, "", false, "save it as comma-separated values"},
		{"WARC", []string{".warc"}, 0, "WARC/", false, "read it with warcio, and write samples with webdataset.TarWriter"},
		{"DuckDB", []string{".duckdb"}, 8, "DUCK", false, "write its tables as Parquet, as its COPY does"},
		{"a zip archive", []string{".zip"}, 0, "PK\x03\x04", false, alone},
		{"a 7z archive", []string{".7z"}, 0, "7z\xbc\xaf\x27\x1c", false, entries},
		{"a rar archive", []string{".rar"}, 0, "Rar!\x1a\x07", false, entries},
		{"compressed by lz4", []string{".lz4"}, 0, "\x04\x22\x4d\x18", true, frames},
		{"compressed by LZMA, Brotli, Snappy or compress", []string{".lzma", ".br", ".snappy", ".sz", ".z"}, 0, "", true, frames},
		{"compressed by bzip2", []string{".bz2", ".tbz", ".tbz2"}, 0, "BZh", true, frames},
		{"compressed by gzip", nil, 0, "\x1f\x8b\x08", true, byName + ".gz"},
		{"compressed by zstd", nil, 0, "\x28\xb5\x2f\xfd", true, byName + ".zst"},
		{"compressed by xz", nil, 0, "\xfd7zXZ\x00", true, byName + ".xz"},
	}
}

// refusal returns an error that names the container and the advice for it.
func (c container) refusal() error {
	if c.cure == alone {
		return fmt.Errorf("it is %s, which is read only if no other format is present: %s, or exclude it with --match", c.name, c.cure)
	}
	if strings.HasPrefix(c.cure, byName) {
		return fmt.Errorf("it is %s, but its name does not say so: %s, or exclude it with --match", c.name, c.cure)
	}
	return fmt.Errorf("it is %s, which is not supported: %s, or exclude it with --match", c.name, c.cure)
}

// bySuffix returns the containers by their suffixes. The map keeps lookups fast for millions of
// objects.
var bySuffix = sync.OnceValue(func() map[string]container {
	all := map[string]container{}
	for _, c := range containers() {
		for _, suffix := range c.suffixes {
			all[suffix] = c
		}
	}
	return all
})

// numberedPart matches the suffix that TensorFlow Datasets appends to shard names:
// "-00000-of-00008".
var numberedPart = regexp.MustCompile(`-\d+-of-\d+$`)

// containerNamed returns the container indicated by the suffix of an object's name or of a folder
// above it.
func containerNamed(key string) (container, bool) {
	name := key
	if strings.Contains(path.Base(key), "-of-") {
		name = numberedPart.ReplaceAllString(key, "")
	}
	for _, suffix := range []string{path.Ext(name), path.Ext(format.Plain(name))} {
		if c, ok := bySuffix()[strings.ToLower(suffix)]; ok {
			return c, true
		}
	}
	if path.Base(key) == zarrGroup {
		return bySuffix()[".zarr"], true
	}
	for dir := path.Dir(key); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if c, ok := bySuffix()[strings.ToLower(path.Ext(dir))]; ok && c.folder() {
			return c, true
		}
	}
	return container{}, false
}

// folder reports whether the container is a folder of objects.
func (c container) folder() bool { return slices.Contains([]string{"zarr", "Lance", "LMDB"}, c.name) }

// unread explains why no format reads an unclaimed object. It determines the reason from the
// object's name or first bytes.
func (b *builder) unread(ctx context.Context, l *listing, key string) (refusal, err error) {
	if c, ok := containerNamed(key); ok {
		return fmt.Errorf("object %s: %w", key, c.refusal()), nil
	}
	head, err := format.Head(ctx, l, key)
	if err != nil {
		return nil, err
	}
	if len(head) == 0 {
		return fmt.Errorf("object %s has no bytes: remove it, or upload it again", key), nil
	}
	for _, c := range containers() {
		if c.magic != "" && len(head) > c.at && strings.HasPrefix(string(head[c.at:]), c.magic) || c.name == zarrName && b.inZarr() {
			return fmt.Errorf("object %s: %w", key, c.refusal()), nil
		}
	}
	return &files.UnknownError{Key: key}, nil
}

// refuse returns the error for a dataset with an object that may hold any number of samples.
func (b *builder) refuse(ctx context.Context, l *listing, unknown *files.UnknownError) error {
	key := unknown.Key
	for _, o := range l.seen { // prefer a name that identifies the dataset, for example data/x.lance over _versions/1.manifest
		if c, known := containerNamed(o.Key); known && c.folder() {
			key = o.Key
			break
		}
	}
	if at := slices.IndexFunc(l.seen, func(o format.Object) bool { return tokens.Named(o.Key) }); at >= 0 && key == unknown.Key {
		key = l.seen[at].Key // names a data object instead of a companion such as meta.pkl
	}
	refusal, err := b.unread(ctx, l, key)
	if err != nil || !errors.As(refusal, &unknown) {
		return cmp.Or(err, refusal)
	}
	return fmt.Errorf("no shards found: %w; looked for %s: %w", unknown, strings.Join(lookedFor(""), "; "), objstore.ErrNotFound)
}

// inZarr reports whether the dataset's address is inside a zarr version 2 store, which only hidden
// names reveal.
func (b *builder) inZarr() bool {
	for key := range b.hidden {
		if slices.Contains([]string{".zarray", ".zgroup", ".zmetadata"}, path.Base(key)) {
			return true
		}
	}
	return false
}

// tableOf returns the kind of table that an object's key indicates. Such a table has a log that
// determines its valid files and rows.
func tableOf(key string) string {
	dir, name := path.Split("/" + key)
	switch {
	case strings.Contains(dir, "/_delta_log/"):
		return "Delta Lake"
	case strings.Contains(dir, "/.hoodie/"):
		return "Hudi"
	case strings.HasSuffix(dir, "/metadata/") && strings.HasSuffix(name, ".metadata.json"):
		return "Iceberg"
	}
	return ""
}

// refuseTables returns an error for files of a table with a log, because deleted or rewritten rows
// would become samples. It accepts a pattern that the user chose.
func (b *builder) refuseTables(l *listing) error {
	if b.chosenByPattern() {
		return nil
	}
	refuse := func(key string) error {
		if kind := tableOf(key); kind != "" {
			return fmt.Errorf("object %s: this is a table of %s, whose log lists the valid rows of its files: write these rows as Parquet files elsewhere, for example with DuckDB or Polars, or index the rows of all files with --match '*.parquet'", key, kind)
		}
		return nil
	}
	for _, o := range l.seen {
		if err := refuse(o.Key); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.hidden)) {
		if err := refuse(key); err != nil {
			return err
		}
	}
	return nil
}
