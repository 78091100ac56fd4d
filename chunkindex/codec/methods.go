package codec

import (
	"bufio"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/millrace-data/millrace/chunkindex/codec/arrowbatch"
	"github.com/millrace-data/millrace/chunkindex/codec/jsonvalue"
	"github.com/millrace-data/millrace/chunkindex/codec/rowgroup"
	"github.com/millrace-data/millrace/chunkindex/codec/zipmember"
	"github.com/millrace-data/millrace/chunkindex/rows"
)

// method implements a codec. It decodes either a stream of frames, or all frames of one chunk at
// once.
type method struct {
	name      string
	smaller   string                                                  // advice on how to write smaller frames
	described bool                                                    // chunks have parameters
	room      func(decoded int64) int64                               // memory needed in addition to the stored bytes; nil: negligible
	decode    func(params, stored, dst []byte) error                  // fills dst from the frames of a chunk; nil: objects are streams of frames
	rows      func(params, stored, dst []byte, m *rows.Mapping) error // like decode, for codecs of rows
	whole     bool                                                    // chunks are whole frames
	pieces    bool                                                    // frames may be read without the bytes of some columns

	// For streams of frames:
	begins func(head []byte) bool // reports whether an object may begin with these four bytes, or fewer if the object is shorter
	frames func(in *bufio.Reader) unpacker
	open   func(params []byte, in io.Reader) (decoded io.Reader, done func(), err error) // returns a reader that starts at the beginning of a frame
}

const smallerFrames = "recompress the object in smaller frames"

// methods returns the table of all codecs.
var methods = sync.OnceValue(func() map[Codec]*method {
	return map[Codec]*method{
		None: {
			name: "none",
			open: func(_ []byte, in io.Reader) (io.Reader, func(), error) { return in, func() {}, nil },
		},
		Gzip: {
			name: "gzip", smaller: smallerFrames,
			begins: isGzip,
			frames: func(in *bufio.Reader) unpacker { return &gzipMembers{in: in} },
			open: func(_ []byte, in io.Reader) (io.Reader, func(), error) {
				z, err := gzip.NewReader(in)
				return z, func() {}, err
			},
		},
		Zstd: {
			name: "zstd", smaller: smallerFrames,
			begins: isZstd,
			frames: func(in *bufio.Reader) unpacker { return &zstdFrames{in: in} },
			open: func(_ []byte, in io.Reader) (io.Reader, func(), error) {
				z, err := newZstd(in)
				if err != nil {
					return nil, nil, err
				}
				return z, z.Close, nil
			},
		},
		Xz: {
			name: "xz", described: true,
			smaller: "recompress the object in smaller blocks, as xz --block-size=16MiB does, or by zstd in smaller frames",
			room:    func(int64) int64 { return MaxDictionary },
			begins:  isXz,
			frames:  func(in *bufio.Reader) unpacker { return &xzBlocks{in: in} },
			open: func(params []byte, in io.Reader) (io.Reader, func(), error) {
				x, err := insideXz(params, in)
				return x, func() {}, err
			},
		},
		Parquet: {
			name: "parquet", described: true, whole: true, pieces: true,
			smaller: "write the file again with smaller row groups (row_group_size=)",
			room:    rowgroup.Room, rows: rowgroup.Decode,
		},
		Arrow: {
			name: "arrow", described: true, whole: true,
			smaller: "write the file again in smaller record batches",
			room:    arrowbatch.Room, rows: arrowbatch.Decode,
		},
		JSON: {
			name: "json", smaller: "write one value per line (jq -c)",
			room: jsonvalue.Room, decode: jsonvalue.Decode,
		},
		Zip: {name: "zip", described: true, smaller: smallerFrames, decode: zipmember.Decode},
	}
})
