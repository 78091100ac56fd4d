package offsets

import (
	"bytes"
	"cmp"
	"context"
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
