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

// Directory is an epoch as a directory of another library's shards. Each shard is a batch. The library reads a list of
// them first.
type Directory struct {
	Form          string // of the shards
	before, after string // around the number in a shard's name
	digits        int    // of the number, at least
	index         func(ctx context.Context, d *plans.Dataset, b address.Batch, shards []framing.MDSBatch) ([]byte, error)
}

// DirectoryIndex is the name of the list of the shards.
const DirectoryIndex = "index.json"

// MDSDirectory is an epoch as MosaicML's Streaming reads one.
func MDSDirectory() Directory {
	return Directory{Form: framing.MDS, before: "shard.", after: ".mds", digits: 5, index: func(ctx context.Context, d *plans.Dataset, b address.Batch, shards []framing.MDSBatch) ([]byte, error) {
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

// TarDirectory is an epoch as WebDataset reads one. The list is that of its wids.
func TarDirectory() Directory {
	return Directory{Form: framing.Tar, after: ".tar", digits: 6, index: func(_ context.Context, d *plans.Dataset, _ address.Batch, shards []framing.MDSBatch) ([]byte, error) {
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

// Name returns the name of the shard of a batch.
func (v Directory) Name(batch uint64) string {
	return fmt.Sprintf("%s%0*d%s", v.before, v.digits, batch, v.after)
}

// Number returns the batch of a shard. ok is false for a name that no shard has.
func (v Directory) Number(name string) (batch uint64, ok bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, v.before), v.after)
	batch, err := strconv.ParseUint(digits, 10, 64)
	return batch, err == nil && v.Name(batch) == name
}

// Index returns the list of the shards of an epoch, which a batch of it names.
func (v Directory) Index(ctx context.Context, d *plans.Dataset, b address.Batch, shards []framing.MDSBatch) ([]byte, error) {
	return v.index(ctx, d, b, shards)
}
