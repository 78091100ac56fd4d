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

// IndexKey is where the index of a dataset lies that a library wrote beside its shards.
const IndexKey = "index.json"

const maxIndex = 256 << 20 // bytes of an index.json

// ReadIndex reads the index.json of a dataset into an object; fields of other types than into expects are an error. It
// reports whether there is one at all, that is a JSON object with a member of this name, which tells formats apart.
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
		if bytes.Contains(head, []byte(`"`+member+`"`)) { // it was cut, or changed by hand: its shards are no loose objects
			return true, fmt.Errorf("%s: %w: copy the one that its writer left, or name another format with --format", IndexKey, err)
		}
		return false, nil // an index.json of somebody else's; whoever knows it says what is wrong with it
	}
	if _, ok := members[member]; !ok {
		return false, nil
	}
	if err := json.Unmarshal(b, into); err != nil {
		return true, fmt.Errorf("%s: %w", IndexKey, err)
	}
	return true, nil
}

// Find returns the object of this key.
func Find(objects []format.Object, key string) (format.Object, bool) {
	i, ok := slices.BinarySearchFunc(objects, key, func(o format.Object, key string) int { return cmp.Compare(o.Key, key) })
	if !ok {
		return format.Object{}, false
	}
	return objects[i], true
}

// Listed is a shard that an index names.
type Listed struct {
	Key  string
	Size int64 // stored bytes; -1: the index does not say
	Says string
	Shard
}

// Match finds the objects of all shards that an index names, and returns both in byte order of their keys.
func Match(objects []format.Object, listed []Listed) ([]format.Shard, []Listed, error) {
	slices.SortFunc(listed, func(a, b Listed) int { return cmp.Compare(a.Key, b.Key) })
	shards := make([]format.Shard, 0, len(listed))
	for i, s := range listed {
		if i > 0 && listed[i-1].Key == s.Key {
			return nil, nil, fmt.Errorf("%s names shard %.200q twice", IndexKey, s.Key)
		}
		o, ok := Find(objects, s.Key)
		if !ok {
			return nil, nil, fmt.Errorf("%s names shard %.200q, which is not there", IndexKey, s.Key)
		}
		if s.Size >= 0 && o.Size != s.Size {
			return nil, nil, fmt.Errorf("shard %s has %d bytes, and %d in %s", s.Key, o.Size, s.Size, IndexKey)
		}
		if s.Samples > MaxSamples {
			return nil, nil, fmt.Errorf("shard %s has %d samples in %s, more than a shard can have, %d", s.Key, s.Samples, IndexKey, MaxSamples)
		}
		shards = append(shards, format.Shard{Object: o, Says: s.Says})
	}
	return shards, listed, nil
}
