package build

import (
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/arrowipc"
	"github.com/millrace-data/millrace/chunkindex/format/csv"
	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/format/jsonl"
	"github.com/millrace-data/millrace/chunkindex/format/litdata"
	"github.com/millrace-data/millrace/chunkindex/format/mds"
	"github.com/millrace-data/millrace/chunkindex/format/parquet"
	"github.com/millrace-data/millrace/chunkindex/format/records"
	"github.com/millrace-data/millrace/chunkindex/format/tfrecord"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/format/zip"
)

// formats lists all formats, in the order in which they look at a dataset: those that are surest of themselves first, loose
// objects last.
func formats() []format.Format {
	return []format.Format{
		mds.Format(),
		litdata.Format(),
		webdataset.Format(),
		tfrecord.Format(),
		jsonl.Format(),
		arrowipc.Format(),
		tokens.Format(),
		records.Format(),
		csv.Format(),
		zip.Format(),
		parquet.Format(),
		files.Format(),
	}
}

// FormatNames are the names of all formats.
func FormatNames() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.Name)
	}
	return names
}

// FormatHints says of each format, after its name, how its shards are recognised.
func FormatHints() []string { return lookedFor("") }

// lookedFor says of the formats, or of the one that a user named, how their shards are recognised.
func lookedFor(named string) []string {
	var all []string
	for _, f := range formats() {
		if named == "" || f.Name == named {
			all = append(all, f.Name+" ("+f.Shards+")")
		}
	}
	return all
}
