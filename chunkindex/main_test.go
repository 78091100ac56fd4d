package chunkindex_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/internal/objstore"
)

func TestMain(m *testing.M) {
	chunkindex.IndexShards = func(ctx context.Context, store objstore.Store, prefix string, o chunkindex.IndexOptions) (chunkindex.IndexReport, error) {
		r, err := build.Run(ctx, store, prefix, build.Options{
			ChunkSize: o.ChunkSize, Format: o.Format, Hints: o.Hints, Parallel: o.Parallel, Share: build.Share{Parts: o.Parts, Rest: o.Rest},
		})
		return chunkindex.IndexReport{
			Generation: r.Generation, Samples: r.Samples, Bytes: r.Bytes, ReadBytes: r.ReadBytes,
			Unchanged: r.Unchanged, Rebound: r.Rebound, RepeatedKeys: r.RepeatedKeys, RepeatedKey: r.RepeatedKey,
		}, err
	}
	goleak.VerifyTestMain(m)
}
