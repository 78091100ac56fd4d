package body

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/plans"
)

// Directory presents an epoch as a directory of another library's shards, one per batch. The
// library reads an index of the shards first.
type Directory struct {
	Form          string // form of the shards
	before, after string // text around the number in a shard's name
	digits        int    // minimum digits of the number

	// Index returns the index of an epoch's shards; b is any batch of the epoch.
	Index func(ctx context.Context, d *plans.Dataset, b address.Batch, shards []framing.MDSBatch) ([]byte, error)
}

// DirectoryIndex is the name of the index of the shards.
const DirectoryIndex = "index.json"

// MDSDirectory returns the directory for MosaicML Streaming.
func MDSDirectory() Directory {
	return Directory{Form: framing.MDS, before: "shard.", after: ".mds", digits: 5, Index: func(ctx context.Context, d *plans.Dataset, b address.Batch, shards []framing.MDSBatch) ([]byte, error) {
		constants, err := MDSConstants(ctx, d, b.View)
		if err != nil {
			return nil, err
		}
		list, err := framing.MDSIndex(constants, shards)
		if err != nil {
			return nil, fmt.Errorf("index of the shards: %w", err)
		}
		return list, nil
	}}
}

// TarDirectory returns the directory for WebDataset, with an index for its wids.
func TarDirectory() Directory {
	return Directory{Form: framing.Tar, after: ".tar", digits: 6, Index: func(_ context.Context, d *plans.Dataset, _ address.Batch, shards []framing.MDSBatch) ([]byte, error) {
		type shard struct {
			URL     string `json:"url"`
			Samples int    `json:"nsamples"`
			Bytes   int64  `json:"filesize"`
		}
		list := make([]shard, len(shards))
		for i, s := range shards {
			list[i] = shard{s.Name, s.Samples, s.Bytes}
		}
		return json.Marshal(map[string]any{"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": d.Name(), "shardlist": list})
	}}
}

// Name returns the name of the shard for a batch.
func (v Directory) Name(batch uint64) string {
	return fmt.Sprintf("%s%0*d%s", v.before, v.digits, batch, v.after)
}

// Number returns the batch of a shard. ok is false if no shard has the name.
func (v Directory) Number(name string) (batch uint64, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, v.before), v.after)
	batch, err := strconv.ParseUint(digits, 10, 64)
	return batch, err == nil && v.Name(batch) == name
}
