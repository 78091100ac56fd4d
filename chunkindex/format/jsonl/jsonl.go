// Package jsonl reads JSON: lines with one value each (https://jsonlines.org), the elements of an
// array, and values one after another. A sample is a line including its line end, so a batch is
// JSON Lines. Values that do not have a line each are decoded into lines.
//
// The scan validates every line against RFC 8259 and as UTF-8, because a training run cannot
// recover from an invalid line in the middle of an epoch. The scan rejects lines if readers
// disagree on where they end.
package jsonl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Part is the extension of a sample's part: the line without its line end.
const Part = "json"

// Format returns the JSON Lines format.
func Format() format.Format {
	return format.Format{
		Name:   framing.JSONL,
		Shards: "names in .jsonl, .ndjson, or in .json with several objects or an array of objects",
		Survey: survey,
	}
}

// survey claims objects by name. It claims objects that end in .json only if no others exist and
// the content of each shows that it holds several samples. If the user names the format, survey
// claims all objects that can hold samples. The scan validates each line.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	shards, maybe := sorted(l, o.Named)
	var kinds map[string]kind
	if len(shards) == 0 || o.Named {
		all, ok, err := byContent(ctx, l, maybe, o.Named)
		if err != nil || !ok {
			return nil, err
		}
		if !o.Named && len(maybe) < len(format.Data(l.Objects())) && slices.ContainsFunc(slices.Collect(maps.Values(all)), kind.decoded) {
			return nil, nil // next to other objects, such a file is likely to describe them
		}
		kinds, shards = all, append(shards, maybe...)
		slices.SortFunc(shards, func(a, b format.Object) int { return cmp.Compare(a.Key, b.Key) })
	}
	d := format.NewDataset(shards, func(shard format.Object, c *format.Cursor) error {
		s := scanner{Cursor: c, stem: format.Stem(shard.Key, suffixes()...)}
		return s.run()
	})
	decoded := slices.IndexFunc(shards, func(s format.Object) bool { return kinds[s.Key].decoded() })
	if decoded < 0 {
		return d, nil
	}
	if i := slices.IndexFunc(shards, func(s format.Object) bool { c, _ := codec.Of(s.Key); return c != codec.None }); i >= 0 {
		return nil, fmt.Errorf("object %s is compressed, but the values of %s do not have a line each, which requires decompressed objects: decompress it", shards[i].Key, shards[decoded].Key)
	}
	d.Decode = func(ctx context.Context, shard int, in format.Ranges) (format.Decoded, error) {
		return decode(ctx, kinds[shards[shard].Key], shards[shard], in)
	}
	return d, nil
}

func suffixes() []string { return []string{".jsonl", ".ndjson", ".json"} }

// sorted returns the objects whose names indicate JSON Lines, and the objects whose content must be
// inspected: those in .json, or all others if the user names the format.
func sorted(l format.Listing, named bool) (shards, maybe []format.Object) {
	for _, object := range format.Data(l.Objects()) {
		suffix := format.Ext(object.Key)
		switch {
		case path.Base(object.Key)[0] == '.' && !named:
		case suffix == ".jsonl", suffix == ".ndjson":
			shards = append(shards, object)
		case suffix == ".json", named:
			maybe = append(maybe, object)
		}
	}
	return shards, maybe
}
