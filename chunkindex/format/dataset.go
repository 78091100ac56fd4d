package format

import (
	"context"
	"io"
	"slices"
)

// Called returns the objects that can hold samples and whose names have one of these lower-case
// suffixes, ignoring case. If the user names the format, Called returns all objects that can hold
// samples.
func Called(l Listing, o Options, suffixes ...string) []Object {
	return slices.DeleteFunc(Data(l.Objects()), func(object Object) bool {
		return !o.Named && !slices.Contains(suffixes, Ext(object.Key))
	})
}

// NewDataset returns a dataset of independent shards, or nil if there are no shards. scan scans one
// shard and must read the cursor to its end.
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
