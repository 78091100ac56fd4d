// Package jsonl reads JSON Lines: files of one JSON value a line (https://jsonlines.org). A sample is a line with its
// line end, so that a batch is JSON Lines.
//
// Every line is checked, by RFC 8259 and as UTF-8, because a reader that finds a bad one in the middle of an epoch can
// only give up. Where readers disagree about where a line ends, the line is refused.
package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"path"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Part is the extension of a line without its line end.
const Part = "json"

// Format reads JSON Lines.
func Format() format.Format {
	return format.Format{
		Name:   framing.JSONL,
		Shards: "names in .jsonl, .ndjson, or in .json with an object a line",
		Survey: survey,
		// The content type is the one most used of several that nobody has registered.
	}
}

// survey takes objects that are called as JSON Lines are: those that end in .json only where there are no others, and
// if all of them begin with objects, a line each. If it was asked for by name every object that holds data is a shard, whatever its
// name; the scan checks each line.
func survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	shards, maybe := sorted(l, o.Named)
	if len(shards) == 0 {
		ok, err := byContent(ctx, l, maybe)
		if err != nil || !ok {
			return nil, err
		}
		shards = maybe
	}
	return format.NewDataset(shards, func(shard format.Object, c *format.Cursor) error {
		s := scanner{Cursor: c, stem: format.Stem(shard.Key, suffixes()...)}
		return s.run()
	}), nil
}

func suffixes() []string { return []string{".jsonl", ".ndjson", ".json"} }

// sorted returns the objects whose names are those of JSON Lines, or all where the format was named, and those whose names are those
// of any JSON.
func sorted(l format.Listing, named bool) (shards, maybe []format.Object) {
	for _, object := range format.Data(l.Objects()) {
		suffix := format.Ext(object.Key)
		switch {
		case named:
			shards = append(shards, object)
		case path.Base(object.Key)[0] == '.':
		case suffix == ".jsonl", suffix == ".ndjson":
			shards = append(shards, object)
		case suffix == ".json":
			maybe = append(maybe, object)
		}
	}
	return shards, maybe
}

// byContent says whether objects look like JSON Lines: each is empty or begins with an object on a line of its own, and one of the
// first has a second line.
func byContent(ctx context.Context, l format.Listing, maybe []format.Object) (bool, error) {
	all, several, looked := true, false, 0
	err := format.EachHead(ctx, l, maybe, func(object format.Object, head []byte) (bool, error) {
		lines, err := look(ctx, l, object, head)
		all, several = lines != none, several || lines > 1
		looked += min(1, max(0, lines))
		return all && (several || looked < looks), err
	})
	return all && several, err
}

// looks is how many objects of a single line are looked at before it is clear that each is a value of its own.
const looks = 4

// none is what look finds in an object that is not JSON Lines.
const none = -1

// maxLook is how much of an object is looked at for the end of its first line. Whoever has longer lines names the format.
const maxLook = 16 << 20

// look returns how many lines an object begins with, as far as that matters: 0, 1, or 2 for more; or none. It looks further where the
// first line is longer than what was seen.
func look(ctx context.Context, l format.Listing, o format.Object, head []byte) (lines int, err error) {
	for n := int64(format.HeadSize); ; {
		first, rest, ended := bytes.Cut(bytes.TrimPrefix(head, []byte(mark)), []byte("\n"))
		whole := int64(len(head)) < n
		switch {
		case len(head) == 0:
			return 0, nil
		case !bytes.HasPrefix(first, []byte("{")):
			return none, nil
		case !ended && !whole && n < maxLook:
			n *= 64
			if head, err = l.First(ctx, o.Key, n); err != nil {
				return none, err
			}
			continue
		case !ended && !whole, !json.Valid(first):
			return none, nil
		case len(rest) == 0:
			return 1, nil
		}
		second, _, ended := bytes.Cut(rest, []byte("\n"))
		if !bytes.HasPrefix(second, []byte("{")) || (ended || whole) && !json.Valid(second) {
			return none, nil
		}
		return 2, nil
	}
}
