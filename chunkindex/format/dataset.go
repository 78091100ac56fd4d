package format

import (
	"context"
	"io"
	"slices"
)

// Called returns the objects whose names end in one of these suffixes, in small letters or capitals, as far as they can hold samples. If
// the user named the format it returns all that can.
func Called(l Listing, o Options, suffixes ...string) []Object {
	return slices.DeleteFunc(Data(l.Objects()), func(object Object) bool {
		return !o.Named && !slices.Contains(suffixes, Ext(object.Key))
	})
}

// NewDataset returns the dataset of shards of which each is read by itself, nil if there are none. scan finds the samples of one shard; it
// reads the cursor to its end.
func NewDataset(shards []Object, scan func(shard Object, c *Cursor) error) *Dataset {
	if len(shards) == 0 {
		return nil
	}
	d := &Dataset{Scan: func(ctx context.Context, shard int, in io.Reader, out Sink) error {
		return scan(shards[shard], NewCursor(ctx, shards[shard], in, out))
	}}
	for _, object := range shards {
		d.Shards = append(d.Shards, Shard{Object: object})
	}
	return d
}
