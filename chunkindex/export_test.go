package chunkindex

import (
	"context"

	"github.com/millrace-data/millrace/internal/objstore"
)

// BuildKeeping is a Build that keeps what it has scanned after so many bytes, or shards.
func BuildKeeping(ctx context.Context, store objstore.Store, prefix string, opt BuildOptions, bytes int64, shards int) (BuildReport, error) {
	b, err := newBuilder(store, prefix, opt)
	if err != nil {
		return BuildReport{}, err
	}
	defer b.close()
	b.keptBytes, b.keptShards = bytes, shards
	err = b.run(ctx)
	return b.report, err
}
