package build

import (
	"context"

	"github.com/millrace-data/millrace/internal/objstore"
)

// RunKeeping is like Run, but with other thresholds for storing scans.
func RunKeeping(ctx context.Context, store objstore.Store, prefix string, opt Options, bytes int64, shards int) (Report, error) {
	b, err := newBuilder(store, prefix, opt)
	if err != nil {
		return Report{}, err
	}
	defer b.close()
	b.keptBytes, b.keptShards = bytes, shards
	err = b.run(ctx)
	return b.report, err
}
