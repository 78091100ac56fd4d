// Package framing returns the bytes before and after the samples of a batch, for every format. To
// serve a format, a gateway needs only its framing. The package reads the constants that a survey
// has stored in the index, and no shards.
package framing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// The names of the formats in the index, the API and options. They never change.
const (
	Arrow    = "arrow"
	CSV      = "csv"
	Files    = "files"
	JSONL    = "jsonl"
	LitData  = "litdata"
	MDS      = "mds"
	Parquet  = "parquet"
	Records  = "records"
	Tar      = "tar"
	TFRecord = "tfrecord"
	Tokens   = "tokens"
	Zip      = "zip"
)

// ErrUnknown is the error for a format that is not in the table.
var ErrUnknown = errors.New("format is not known")

// Read returns the framing of batches of a format, from the constants that its survey found. It
// returns nil for a format without its own framing. Read checks the constants, because they come
// from an untrusted index.
func Read(name string, constants json.RawMessage) (format.Framing, error) {
	read, known := table()[name]
	if !known {
		return nil, fmt.Errorf("%s: %w", name, ErrUnknown)
	}
	return read(constants)
}

// strict decodes the constants of a format.
func strict(constants json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(constants))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && !json.Valid(constants) {
		err = errors.New("more data follows it")
	}
	return err
}

func table() map[string]func(constants json.RawMessage) (format.Framing, error) {
	return map[string]func(json.RawMessage) (format.Framing, error){
		Arrow:    readRows,
		CSV:      readCSV,
		Files:    format.AsTar,
		JSONL:    format.Bare("application/x-ndjson", format.Field{Name: "json", Encoding: format.JSON}),
		LitData:  readLitData,
		MDS:      readMDS,
		Parquet:  readRows,
		Records:  readArray,
		Tar:      format.Closed("application/x-tar", make([]byte, 1024)), // two zero blocks end a tar
		TFRecord: format.Bare("application/x-tfrecord", format.Field{Name: "tfrecord", Encoding: format.Raw, Type: "binary"}),
		Tokens:   readArray,
		Zip:      format.AsTar,
	}
}
