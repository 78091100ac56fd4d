package chunkindex

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/files"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// container is a kind of file that holds any number of samples, or of compressed file, that no format reads.
type container struct {
	name     string
	suffixes []string // of an object, or of a folder above it
	at       int      // where its magic is
	magic    string   // empty: none
	packed   bool     // it is another file, compressed
	cure     string
}

// alone is the cure of a container that a format reads where nothing else lies.
const alone = "choose such objects alone with --match"

// containers are those that people have. A name decides before a magic does.
func containers() []container {
	const (
		entries = "unpack it, and make shards of the files with millrace pack"
		frames  = "compress it with zstd or gzip instead"
	)
	return []container{
		{"Parquet", nil, 0, "PAR1", false, "let its name end in .parquet, or name the format (--format parquet)"},
		{"Arrow IPC", nil, 0, "ARROW1", false, "let its name end in .arrow, or name the format (--format arrow)"},
		{"Feather", nil, 0, "FEA1", false, "read it with pyarrow.feather and write it with pyarrow.parquet"},
		{"ORC", []string{".orc"}, 0, "ORC", false, "read it with pyarrow.orc and write it with pyarrow.parquet"},
		{"Avro", []string{".avro"}, 0, "Obj\x01", false, "read it with fastavro and write it with pyarrow.parquet"},
		{"comma-separated values", []string{".csv", ".tsv", ".tab"}, 0, "", false, alone},
		{"SQLite", []string{".sqlite", ".sqlite3", ".db"}, 0, "SQLite format 3\x00", false, "write its tables as Parquet, as duckdb does"},
		{"NumPy's zip of arrays", []string{".npz"}, 0, "", false, "write each array with numpy.save"},
		{"HDF5", []string{".h5", ".hdf5", ".hdf"}, 0, "\x89HDF\r\n\x1a\n", false, "read it with h5py, and write each array with numpy.save, or samples with MDSWriter"},
		{"LMDB", []string{".mdb", ".lmdb"}, 16, "\xde\xc0\xef\xbe", false, "read it with lmdb, and write its entries with webdataset.TarWriter"},
		{"ArrayRecord", []string{".array_record", ".arrayrecord"}, 0, "", false, "read it with array_record, and write its records with tf.io.TFRecordWriter"},
		{"zarr", []string{".zarr"}, 0, "", false, "read it with zarr, and write each array with numpy.save"},
		{"Lance", []string{".lance"}, 0, "", false, "read it with lance and write it with pyarrow.parquet"},
		{"FFCV", []string{".beton"}, 0, "", false, "read it with ffcv, and write samples with MDSWriter or webdataset.TarWriter"},
		{"a zip archive", []string{".zip"}, 0, "PK\x03\x04", false, alone},
		{"a 7z archive", []string{".7z"}, 0, "7z\xbc\xaf\x27\x1c", false, entries},
		{"a rar archive", []string{".rar"}, 0, "Rar!\x1a\x07", false, entries},
		{"compressed by lz4", []string{".lz4"}, 0, "\x04\x22\x4d\x18", true, frames},
		{"compressed by LZMA, Brotli, Snappy or compress", []string{".lzma", ".br", ".snappy", ".sz", ".z"}, 0, "", true, frames},
		{"compressed by gzip", nil, 0, "\x1f\x8b\x08", true, "let its name end in .gz"},
		{"compressed by zstd", nil, 0, "\x28\xb5\x2f\xfd", true, "let its name end in .zst"},
		{"compressed by xz", nil, 0, "\xfd7zXZ\x00", true, "let its name end in .xz"},
		{"compressed by bzip2", nil, 0, "BZh", true, "let its name end in .bz2"},
	}
}

// refusal says what to do with one.
func (c container) refusal() error {
	if c.cure == alone {
		return fmt.Errorf("it is %s, which is read only where nothing else lies: %s, or leave it out with --match", c.name, c.cure)
	}
	return fmt.Errorf("it is %s, which is not read: %s, or leave it out with --match", c.name, c.cure)
}

// containerNamed returns the container that an object's name says that it is, or the name of a folder above it.
func containerNamed(key string) (container, bool) {
	for name := key; name != "." && name != "/"; name = path.Dir(name) {
		suffix := strings.ToLower(path.Ext(name))
		for _, c := range containers() {
			if slices.Contains(c.suffixes, suffix) && (name == key || c.folder()) {
				return c, true
			}
		}
	}
	return container{}, false
}

// folder says whether the container is a folder of objects.
func (c container) folder() bool { return slices.Contains([]string{"zarr", "Lance", "LMDB"}, c.name) }

// unread says what an object is that no format claims and that may hold any number of samples.
func (b *builder) unread(ctx context.Context, l *listing, unknown *files.UnknownError) error {
	if c, ok := containerNamed(unknown.Key); ok {
		return fmt.Errorf("object %s: %w", unknown.Key, c.refusal())
	}
	head, err := format.Head(ctx, l, unknown.Key)
	if err != nil {
		return err
	}
	for _, c := range containers() {
		if c.magic != "" && len(head) > c.at && strings.HasPrefix(string(head[c.at:]), c.magic) {
			return fmt.Errorf("object %s: %w", unknown.Key, c.refusal())
		}
	}
	return fmt.Errorf("no shards here: %w; looked for %s: %w", unknown, strings.Join(lookedFor(""), "; "), objstore.ErrNotFound)
}
