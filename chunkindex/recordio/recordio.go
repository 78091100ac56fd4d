// Package recordio reads MXNet's RecordIO files (.rec): records of any bytes, each behind a magic number and its length, at offsets that
// are multiples of four. A sample is a record as it is stored, so that a batch is a .rec file.
//
// The layout is that of dmlc/recordio.h in https://github.com/dmlc/dmlc-core. Where a record's data holds the magic number, writers
// split the record there, so that readers can enter a file anywhere; the pieces lie one after another.
package recordio

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Name is what an index calls this format.
const Name = "recordio"

// The extensions of a record's data.
const (
	Part  = "rec"   // the data, with the IRHeader that MXNet's image records begin with
	Split = "split" // the pieces of a record that was split, with the magic number and the length before each but the first
)

const suffix = ".rec"

// Format reads RecordIO files.
func Format() format.Format {
	return format.Format{
		Name:   Name,
		Shards: "names in .rec",
		Survey: survey,
		// Nobody has registered a content type.
		Framing: format.Bare("application/x-recordio", field(Part), field(Split)),
	}
}

// field describes a part that a record has or has not. What its bytes are, most often an IRHeader and an image, no file says.
func field(part string) format.Field {
	return format.Field{Name: part, Encoding: format.Raw, Type: "binary", Nullable: true}
}

// survey takes objects whose names end in .rec. An .idx of the same name beside one says the keys of its records.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	all := map[string]bool{}
	for _, object := range l.Objects() {
		all[object.Key] = true
	}
	var shards []format.Object
	var beside []string
	for _, object := range format.Called(l, o, suffix) {
		if ext := format.Ext(object.Key); (ext == ".idx" || ext == ".lst") && all[strings.TrimSuffix(object.Key, ext)+suffix] {
			continue
		}
		shards = append(shards, object)
	}
	says := make(map[string]string, len(shards))
	for _, shard := range shards {
		stem := format.Stem(shard.Key, suffix)
		if all[stem+".lst"] { // what im2rec made the records of
			beside = append(beside, stem+".lst")
		}
		if idx := stem + ".idx"; all[idx] {
			var err error
			if says[shard.Key], err = digest(ctx, l, idx); err != nil {
				return nil, fmt.Errorf("object %s: %w", idx, err)
			}
			beside = append(beside, idx)
		}
	}
	d := format.NewDataset(shards, func(shard format.Object, c *format.Cursor) error {
		if says[shard.Key] == "" {
			return scan(shard, c, number{})
		}
		idx := format.Stem(shard.Key, suffix) + ".idx"
		lines, err := l.Open(c.Context(), idx, 0)
		if err != nil {
			return err
		}
		defer lines.Close()
		return scan(shard, c, &listed{name: idx, lines: bufio.NewReader(lines)})
	})
	if d == nil {
		return nil, nil
	}
	d.Beside = beside
	for i := range d.Shards {
		d.Shards[i].Says = says[d.Shards[i].Key]
	}
	return d, nil
}

// digest names the bytes of an object.
func digest(ctx context.Context, l format.Listing, key string) (string, error) {
	in, err := l.Open(ctx, key, 0)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return fmt.Sprintf("keys %x", sum.Sum(nil)), nil
}
