package chunkindex

import (
	"context"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// BuildOptions says how an index is made. The zero value of a field means its default.
type BuildOptions struct {
	ChunkSize    int64    // target length of a chunk, 8 MiB
	Defaults     Defaults // plan parameters stored in the index; zero fields: slot, 128, 0, 256, short
	Parallel     int      // shards scanned side by side
	SingleWriter bool     // publish without conditional writes: the caller promises to be the only writer
	Progress     func(Progress)
}

// Progress of a long job, called from one goroutine at a time.
type Progress struct {
	Done, Total int64 // bytes
	Shards, Of  int
	Samples     uint64
}

// BuildReport says what an index run found and did.
type BuildReport struct {
	Generation     string `json:"generation"`
	Shards, Chunks int
	Samples        uint64
	Bytes          int64 // of all shards
	ReadBytes      int64 // read by this run
	ReusedShards   int   // taken from an earlier index, or from an interrupted run
	Rebound        bool  // same generation, new binding
	Unchanged      bool  // nothing to publish
}

// Build scans the shards under prefix and publishes their index.
func Build(ctx context.Context, store objstore.Store, prefix string, opt BuildOptions) (BuildReport, error) {
	return BuildReport{}, nil
}

// BadRange is a piece of a shard that does not match the index.
type BadRange struct {
	Shard  string `json:"shard"`
	Chunk  int    `json:"chunk"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Cause  string `json:"cause"`
}

// Verify reads every chunk and compares it with its digests, parallel chunks at a time; bad is called for each bad range.
func Verify(ctx context.Context, x *Index, store objstore.RangeReader, prefix string, parallel int, progress func(Progress), bad func(BadRange)) error {
	return nil
}

// Collect removes index objects that no pointer names and that are older than grace, and returns their keys.
func Collect(ctx context.Context, store objstore.Store, prefix string, grace time.Duration) ([]string, error) {
	return nil, nil
}
