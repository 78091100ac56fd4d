// Package tfrecord reads TFRecord files: records of any bytes, each between a length and checksums, one after another
// without a header. A sample is a record as it is stored, so that a batch is a TFRecord file.
//
// The layout is that of TensorFlow's own documentation (https://www.tensorflow.org/tutorials/load_data/tfrecord): a
// length of 8 bytes, the masked CRC-32C of the length, the data, the masked CRC-32C of the data, all little-endian.
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

// Part is the extension of a record's data, without its length and checksums.
const Part = "tfrecord"

// Format reads TFRecord files.
func Format() format.Format {
	return format.Format{
		Name:   framing.TFRecord,
		Shards: "names in .tfrecord, .tfrecords, or without a suffix and with masked checksums",
		Survey: survey,
		// Nobody has registered a content type. What a record's bytes are, most often a tf.train.Example, no file says.
	}
}

// survey takes objects that are called as TFRecord files are, and, where there are none, those without a suffix that begin with
// a record. If it was asked for by name every object that holds data is a shard, and must begin with a record.
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

// numbered matches how writers of many shards call them: "train.tfrecord-00000-of-00010".
func numbered() *regexp.Regexp { return regexp.MustCompile(`^(.*)\.tfrecords?(-[0-9]+-of-[0-9]+)$`) }

func called(key string) bool {
	base := format.Plain(path.Base(key))
	switch format.Ext(base) {
	case ".tfrecord", ".tfrecords", ".tfr":
		return base[0] != '.'
	}
	return base[0] != '.' && strings.Contains(base, ".tfrecord") && numbered().MatchString(base) // which is compiled for the few that it may match
}

// stem leaves out of a shard's name what says that it is one.
func stem(key string) string {
	s := format.Stem(key, ".tfrecord", ".tfrecords", ".tfr")
	if parts := numbered().FindStringSubmatch(s); parts != nil {
		return parts[1] + parts[2]
	}
	return s
}

// begins refuses a dataset of which the first object that is not empty does not begin with a record: the scan would do
// the same, after it has read much that is none.
func begins(ctx context.Context, l format.Listing, shards []format.Object) error {
	for i, s := range shards {
		if s.Size > 0 {
			return begin(ctx, l, shards[i:i+1])
		}
	}
	return nil
}

// begin refuses objects that are not empty and do not begin with a record.
func begin(ctx context.Context, l format.Listing, shards []format.Object) error {
	return format.EachHead(ctx, l, filled(shards), func(o format.Object, head []byte) (bool, error) {
		if !begun(head) {
			return false, fmt.Errorf("object %s does not begin with a TFRecord%s: make it again if it is damaged, or exclude it with --match", o.Key, compressed(head))
		}
		return true, nil
	})
}

// looks is how many objects without a suffix are looked at before it is clear that none of them is a shard.
const looks = 4

// byContent takes objects whose names say nothing, if one of the first begins with a record: all of them have to, then.
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

// filled are the objects that have a byte: a file without a record has none.
func filled(objects []format.Object) []format.Object {
	return slices.DeleteFunc(slices.Clone(objects), func(o format.Object) bool { return o.Size == 0 })
}

// begun says whether a file begins with a record.
func begun(head []byte) bool {
	if len(head) < headSize {
		return false
	}
	_, err := length(head)
	return err == nil
}

// compressed says what TensorFlow does without saying so in a file's name.
func compressed(head []byte) string {
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return ": it is compressed by gzip, and its name does not end in .gz"
	}
	return ""
}

// length reads what stands before a record's data.
func length(head []byte) (uint64, error) {
	if masked(crc32.Checksum(head[:8], castagnoli())) != binary.LittleEndian.Uint32(head[8:]) {
		return 0, errors.New("checksum of a length is wrong")
	}
	return binary.LittleEndian.Uint64(head), nil
}

// masked is how TensorFlow stores a checksum, so that the checksum of data that holds checksums is not a weak one.
func masked(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
