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
	"errors"
	"io"
	"path"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// Name is what an index calls this format.
const Name = "jsonl"

// Part is the extension of a line without its line end.
const Part = "json"

// JSONL is the format of JSON Lines.
type JSONL struct{}

// Name returns "jsonl".
func (JSONL) Name() string { return Name }

// Rules returns 1: none have been released before.
func (JSONL) Rules() int { return 1 }

// Framing needs no constants.
func (JSONL) Framing(constants json.RawMessage) (format.Framing, error) {
	if constants != nil {
		return nil, errors.New("jsonl has no constants")
	}
	return Framing{}, nil
}

// Framing turns lines into JSON Lines: nothing is before or after them.
type Framing struct{}

// ContentType of a batch: the one most used of several that nobody has registered.
func (Framing) ContentType() string { return "application/x-ndjson" }

// Frame returns nothing, whatever the samples are.
func (Framing) Frame([]uint32) (before, after []byte, err error) { return nil, nil, nil }

// Survey takes objects that are called as JSON Lines are: those that end in .json only where there are no others, and
// if all of them begin with two objects, a line each. If it was asked for by name it takes those of them that do.
func (JSONL) Survey(ctx context.Context, l format.Listing, o format.Options) (*format.Dataset, error) {
	shards, maybe := sorted(l)
	if len(shards) == 0 {
		var err error
		if shards, err = byContent(ctx, l, maybe, o.Named); err != nil {
			return nil, err
		}
	}
	switch {
	case len(shards) > 0:
	case o.Named:
		return nil, errors.New("no object's name ends in .jsonl or .ndjson, and none in .json that begins with two objects, a line each")
	default:
		return nil, nil
	}
	d := &format.Dataset{Shards: shards}
	d.Scan = func(ctx context.Context, shard int, in io.Reader, out format.Sink) error {
		return scan(ctx, format.Stem(d.Shards[shard].Key, suffixes()...), in, out)
	}
	return d, nil
}

func suffixes() []string { return []string{".jsonl", ".ndjson", ".json"} }

// byContent returns those of the objects that look like JSON Lines: all of them, some of them, or none.
func byContent(ctx context.Context, l format.Listing, maybe []format.Object, some bool) ([]format.Shard, error) {
	var shards []format.Shard
	err := format.EachHead(ctx, l, maybe, func(object format.Object, head []byte) (bool, error) {
		switch {
		case twoLines(head):
			shards = append(shards, format.Shard{Object: object})
		case !some:
			shards = nil
			return false, nil
		}
		return true, nil
	})
	return shards, err
}

// sorted returns the objects whose names are those of JSON Lines, and those whose names are those of any JSON.
func sorted(l format.Listing) (shards []format.Shard, maybe []format.Object) {
	for _, object := range l.Objects() {
		base := format.Plain(path.Base(object.Key))
		switch {
		case base[0] == '.':
		case path.Ext(base) == ".jsonl", path.Ext(base) == ".ndjson":
			shards = append(shards, format.Shard{Object: object})
		case path.Ext(base) == ".json":
			maybe = append(maybe, object)
		}
	}
	return shards, maybe
}

// twoLines reports whether a file begins with two lines that are an object each. The second may go on past what is seen
// of it.
func twoLines(head []byte) bool {
	first, rest, ok := bytes.Cut(head, []byte("\n"))
	if !ok || !bytes.HasPrefix(first, []byte("{")) || !json.Valid(first) || !bytes.HasPrefix(rest, []byte("{")) {
		return false
	}
	second, _, ok := bytes.Cut(rest, []byte("\n"))
	return json.Valid(second) || !ok && len(head) == format.HeadSize
}
