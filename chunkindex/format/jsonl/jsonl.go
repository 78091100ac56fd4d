// Package jsonl reads JSON Lines: files with one JSON value per line (https://jsonlines.org). A
// sample is a line including its line end, so a batch is JSON Lines.
//
// The scan validates every line against RFC 8259 and as UTF-8, because a training run cannot
// recover from an invalid line in the middle of an epoch. The scan rejects lines if readers
// disagree on where they end.
package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"path"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
)

// Part is the extension of a sample's part: the line without its line end.
const Part = "json"

// Format returns the JSON Lines format.
func Format() format.Format {
	return format.Format{
		Name:   framing.JSONL,
		Shards: "names in .jsonl, .ndjson, or in .json with an object a line",
		Survey: survey,
		// The most common of several unregistered content types.
	}
}

// survey claims objects by name. It claims objects that end in .json only if no others exist and
// all of them look like JSON Lines. If the user names the format, survey claims all objects that
// can hold samples. The scan validates each line.
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

// sorted divides the objects that can hold samples. shards have names of JSON Lines, or are all
// objects if the user names the format. maybe has the objects with names of other JSON.
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

// byContent reports whether the objects look like JSON Lines. Each must be empty or begin with a
// line that is a JSON object, and one of the first objects must have a second line.
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

// looks is the number of single-line objects after which byContent gives up, because each is then
// likely a single JSON value.
const looks = 4

// none is the result of look for an object that is not JSON Lines.
const none = -1

// maxLook limits the search for the end of an object's first line. Users with longer lines must
// name the format.
const maxLook = 16 << 20

// look returns the number of lines at the start of an object: 0, 1, 2 for more, or none. It reads
// more of the object if the first line is longer than head.
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
