package offsets

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/format"
)

// IndexKey is the key of the index that a library stores with its shards.
const IndexKey = "index.json"

const maxIndex = 256 << 20 // maximum bytes of an index.json

// ReadIndex decodes a dataset's index.json into an object; a field of the wrong type is an error.
// It reports whether the index exists and is a JSON object with this member, which distinguishes
// the formats.
func ReadIndex(ctx context.Context, l format.Listing, member string, into any) (bool, error) {
	if _, ok := Find(l.Objects(), IndexKey); !ok {
		return false, nil
	}
	head, err := format.Head(ctx, l, IndexKey)
	if err != nil {
		return false, err
	}
	if head = bytes.TrimLeft(head, " \t\r\n"); len(head) == 0 || head[0] != '{' {
		return false, nil
	}
	b, err := format.Read(ctx, l, IndexKey, maxIndex)
	if err != nil {
		return false, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		if bytes.Contains(head, []byte(`"`+member+`"`)) { // truncated or edited by hand; the shards must not be treated as loose objects
			return true, fmt.Errorf("%s: %w: restore the original, or choose another format with --format", IndexKey, err)
		}
		return false, nil // index.json of another program
	}
	if _, ok := members[member]; !ok {
		return false, nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return true, fmt.Errorf("%s: %w", IndexKey, err)
	}
	return true, nil
}

// Find returns the object with this key.
func Find(objects []format.Object, key string) (format.Object, bool) {
	i, ok := slices.BinarySearchFunc(objects, key, func(o format.Object, key string) int { return cmp.Compare(o.Key, key) })
	if !ok {
		return format.Object{}, false
	}
	return objects[i], true
}

// Listed is the entry of a shard in an index.
type Listed struct {
	Key  string
	Size int64 // stored bytes; -1: not recorded in the index
	Says string
	Shard
}

// Match finds the objects of all shards in an index. It returns the shards and their index entries,
// both in byte order of their keys.
func Match(objects []format.Object, listed []Listed) ([]format.Shard, []Listed, error) {
	slices.SortFunc(listed, func(a, b Listed) int { return cmp.Compare(a.Key, b.Key) })
	shards := make([]format.Shard, 0, len(listed))
	for i, s := range listed {
		if i > 0 && listed[i-1].Key == s.Key {
			return nil, nil, fmt.Errorf("%s names shard %.200q twice", IndexKey, s.Key)
		}
		o, ok := Find(objects, s.Key)
		if !ok {
			return nil, nil, fmt.Errorf("%s names shard %.200q, which does not exist", IndexKey, s.Key)
		}
		if s.Size >= 0 && o.Size != s.Size {
			return nil, nil, fmt.Errorf("shard %s has %d bytes, but %d according to %s", s.Key, o.Size, s.Size, IndexKey)
		}
		if s.Samples > MaxSamples {
			return nil, nil, fmt.Errorf("shard %s has %d samples according to %s, more than the limit of %d", s.Key, s.Samples, IndexKey, MaxSamples)
		}
		shards = append(shards, format.Shard{Object: o, Says: s.Says})
	}
	return shards, listed, nil
}

// rowsMagic ends a chunk of LitData that contains rows: an Arrow file and its length precede it.
const rowsMagic = "LDARW01\x00"

// ReadRows returns the chunks of LitData's index.json if the first one contains rows of Arrow. It does
// not recognize encrypted chunks.
func ReadRows(ctx context.Context, l format.Listing) ([]format.Shard, error) {
	var index struct {
		Chunks []struct {
			Bytes    int64  `json:"chunk_bytes"`
			Filename string `json:"filename"`
		} `json:"chunks"`
	}
	if found, err := ReadIndex(ctx, l, "chunks", &index); err != nil || !found || len(index.Chunks) == 0 {
		return nil, err
	}
	all := make([]Listed, len(index.Chunks))
	for i, c := range index.Chunks {
		all[i] = Listed{Key: c.Filename, Size: c.Bytes}
	}
	o, _ := Find(l.Objects(), all[0].Key)
	if _, n, err := Rows(ctx, format.Listed{Listing: l, Key: o.Key}, o.Size); err != nil || n == 0 {
		return nil, err
	}
	shards, _, err := Match(l.Objects(), all)
	return shards, err
}

// Rows returns the offset and length of the Arrow file at the end of a chunk, or 0 if there is none.
func Rows(ctx context.Context, in format.Ranges, size int64) (start, n int64, err error) {
	tail := make([]byte, 4+len(rowsMagic))
	if size < int64(len(tail)) {
		return 0, 0, nil
	}
	if err := in.ReadRange(ctx, size-int64(len(tail)), tail); err != nil || string(tail[4:]) != rowsMagic {
		return 0, 0, err
	}
	n = int64(binary.LittleEndian.Uint32(tail))
	if start = size - int64(len(tail)) - n; start < 0 {
		return 0, 0, fmt.Errorf("its Arrow rows of %d bytes exceed the object", n)
	}
	return start, n, nil
}
