package chunkindex

import (
	"github.com/millrace-data/millrace/chunkindex/files"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/jsonl"
	"github.com/millrace-data/millrace/chunkindex/litdata"
	"github.com/millrace-data/millrace/chunkindex/mds"
	"github.com/millrace-data/millrace/chunkindex/records"
	"github.com/millrace-data/millrace/chunkindex/tfrecord"
	"github.com/millrace-data/millrace/chunkindex/tokens"
	"github.com/millrace-data/millrace/chunkindex/webdataset"
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
		"tfrecord (names in .tfrecord, .tfrecords, or without a suffix and with masked checksums)",
		"jsonl (names in .jsonl, .ndjson, or in .json with an object a line)",
		"tokens (.bin with .idx beside it, or --sequence-length)",
		"records (names in .npy, CIFAR's batches, or --record-size)",
		"files (images, sound, video or text, one a sample)",
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
