// Package tfrecord reads TFRecord files: records of arbitrary bytes, each with a length and
// checksums, without a file header. A sample is a record as stored, so a batch is a TFRecord file.
//
// TensorFlow documents the layout (https://www.tensorflow.org/tutorials/load_data/tfrecord): a
// length of 8 bytes, the masked CRC-32C of the length, the data, the masked CRC-32C of the data,
// all little-endian.
package tfrecord

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Part is the extension of a sample's part: a record's data without length and checksums.
const Part = "tfrecord"

// Format returns the format of TFRecord files.
func Format() format.Format {
	return format.Format{
		Name:   framing.TFRecord,
		Shards: "names in .tfrecord, .tfrecords, or without a suffix and with masked checksums",
		Survey: survey,
		// TFRecord has no registered content type. Files do not describe their records,
		// which are mostly tf.train.Example.
	}
}

// survey claims objects by name. If no name matches, it claims objects without a suffix that begin
// with a record. If the user names the format, survey claims all objects that can hold samples, and
// requires them to begin with a record.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	var shards, bare []format.Object
	data := format.Data(l.Objects())
	for _, object := range data {
		switch {
		case o.Named || called(object.Key):
			shards = append(shards, object)
		case path.Ext(object.Key) == "":
			bare = append(bare, object)
		}
	}
	var err error
	if o.Named {
		err = begin(ctx, l, shards)
	} else if len(shards) > 0 {
		err = begins(ctx, l, shards)
	} else if shards, err = byContent(ctx, l, bare); err == nil && len(shards) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return format.NewDataset(shards, scan), nil
}

// numbered matches the names that multi-shard writers use: "train.tfrecord-00000-of-00010".
func numbered() *regexp.Regexp { return regexp.MustCompile(`^(.*)\.tfrecords?(-[0-9]+-of-[0-9]+)$`) }

func called(key string) bool {
	base := format.Plain(path.Base(key))
	switch format.Ext(base) {
	case ".tfrecord", ".tfrecords", ".tfr":
		return base[0] != '.'
	}
	return base[0] != '.' && strings.Contains(base, ".tfrecord") && numbered().MatchString(base) // compiles the pattern only for likely names
}

// stem removes the suffixes of the format from a shard's key.
func stem(key string) string {
	s := format.Stem(key, ".tfrecord", ".tfrecords", ".tfr")
	if parts := numbered().FindStringSubmatch(s); parts != nil {
		return parts[1] + parts[2]
	}
	return s
}

// begins checks that the first non-empty object begins with a record. The scan would fail too, but
// only after reading much data.
func begins(ctx context.Context, l format.Listing, shards []format.Object) error {
	for i, s := range shards {
		if s.Size > 0 {
			return begin(ctx, l, shards[i:i+1])
		}
	}
	return nil
}

// begin returns an error for non-empty objects that do not begin with a record.
func begin(ctx context.Context, l format.Listing, shards []format.Object) error {
	return format.EachHead(ctx, l, filled(shards), func(o format.Object, head []byte) (bool, error) {
		if !begun(head) {
			return false, fmt.Errorf("object %s does not begin with a TFRecord%s: restore the object if it is damaged, or exclude it with --match", o.Key, compressed(head))
		}
		return true, nil
	})
}

// looks is the number of objects without a suffix that byContent inspects before it gives up.
const looks = 4

// byContent claims objects without a suffix if one of the first objects begins with a record. All
// of them must then begin with a record.
func byContent(ctx context.Context, l format.Listing, maybe []format.Object) ([]format.Object, error) {
	some := filled(maybe)
	is := false
	err := format.EachHead(ctx, l, some[:min(len(some), looks)], func(_ format.Object, head []byte) (bool, error) {
		is = is || begun(head)
		return !is, nil
	})
	if err != nil || !is {
		return nil, err
	}
	return maybe, begin(ctx, l, maybe)
}

// filled returns the non-empty objects, because a file without records is empty.
func filled(objects []format.Object) []format.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o format.Object) bool { return o.Size == 0 })
}

// begun reports whether a file begins with a record.
func begun(head []byte) bool {
	if len(head) < headSize {
		return false
	}
	_, err := length(head)
	return err == nil
}

// compressed returns a hint for a gzip file without a suffix, because TensorFlow does not add one.
func compressed(head []byte) string {
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return ": it is compressed by gzip, but its name does not end in .gz"
	}
	return ""
}

// length parses the length before a record's data and verifies the length's checksum.
func length(head []byte) (uint64, error) {
	if masked(crc32.Checksum(head[:8], castagnoli())) != binary.LittleEndian.Uint32(head[8:]) {
		return 0, errors.New("checksum of a length does not match")
	}
	return binary.LittleEndian.Uint64(head), nil
}

// masked returns the stored form of a checksum. TensorFlow masks checksums because a CRC of data
// that contains CRCs is weak.
func masked(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
