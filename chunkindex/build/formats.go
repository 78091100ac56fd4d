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

// formats returns all formats in the order of detection: formats with the most reliable signs
// first, loose objects last.
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

// FormatNames returns the names of all formats.
func FormatNames() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.Name)
	}
	return names
}

// FormatHints describes, for each format, its name and how its shards are recognised.
func FormatHints() []string { return lookedFor("") }

// lookedFor describes how shards are recognised in the named format, or in all formats.
func lookedFor(named string) []string {
	var all []string
	for _, f := range formats() {
		if named == "" || f.Name == named {
			all = append(all, f.Name+" ("+f.Shards+")")
		}
	}
	return all
}
