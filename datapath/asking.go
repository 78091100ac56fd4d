package datapath

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
)

// askingShare is the part of the budget that batches may hold together while they wait for peers, a half: chunks that this gateway loads
// to answer peers need the other half. Without it many batches at once would fill all gateways with empty bodies, no owner
// could load a chunk, and each gateway would read the store for itself.
const askingShare = 2

// asking bounds the memory of the batches that wait for peers.
type asking struct {
	max   int64
	bytes *semaphore.Weighted
}

func newAsking(total int64) *asking {
	n := max(total/askingShare, 1)
	return &asking{n, semaphore.NewWeighted(n)}
}

// turn waits for a turn to ask peers for a batch. A batch that waits for nothing gets a turn now or ErrNoRoom, and a part of a mixture
// has got one with its memory.
func (a *asking) turn(ctx context.Context, b *batch) (leave func(), err error) {
	switch n := min(b.bytes, a.max); {
	case b.lent != nil:
		return func() {}, nil
	case !b.tries:
		return a.enter(ctx, n), nil
	case a.bytes.TryAcquire(n):
		return func() { a.bytes.Release(n) }, nil
	}
	return nil, chunkcache.ErrNoRoom
}

// enter waits for a turn to ask for n bytes, but for budget.DefaultWait at most: then the batch asks without a turn.
func (a *asking) enter(ctx context.Context, n int64) (leave func()) {
	n = min(n, a.max)
	ctx, cancel := context.WithTimeout(ctx, budget.DefaultWait)
	defer cancel()
	if a.bytes.Acquire(ctx, n) != nil {
		return func() {}
	}
	return func() { a.bytes.Release(n) }
}

// ownersTier is the tier of the gateways that own chunks, for samples of one batch.
type ownersTier struct {
	*asker
	bytes int64                    // that have come
	lost  []chunkindex.ChunkRanges // samples that no owner has sent
}

var errLost = errors.New("a peer did not send what was asked")

// Load asks all owners at once.
func (o *ownersTier) Load(ctx context.Context, _ *load, fills []*fill) error {
	chunks := make([]chunkindex.ChunkRanges, len(fills))
	for n, x := range fills {
		chunks[n] = x.ChunkRanges
	}
	if o.bytes, o.lost = o.ask(ctx, chunks, nil); len(o.lost) > 0 {
		return errLost
	}
	return nil
}
