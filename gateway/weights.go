package gateway

import (
	"context"

	"github.com/millrace-data/millrace/importance"
	"github.com/millrace-data/millrace/selection"
)

// weights is an open snapshot.
type weights struct{ *importance.Snapshot }

// openWeights opens the snapshot of weights that a key names.
func openWeights(ctx context.Context, key snapshotKey) (*weights, error) {
	d := key.dataset
	snapshot, err := d.Importance.Open(ctx, key.name, d.Index.Generation(), d.Index.First())
	if err != nil {
		return nil, importanceProblem(d, err)
	}
	return &weights{snapshot}, nil
}

// What an open snapshot holds: total, checksum and offset of each chunk, and the weights used last.
const (
	snapshotOverhead = 4<<20 + 8<<10
	bytesPerWeighed  = 20
)

func weightsBytes(key snapshotKey) int64 {
	return snapshotOverhead + bytesPerWeighed*int64(key.dataset.Index.Chunks())
}

// openSnapshots sets up what plans are made with beside datasets.
func (g *Gateway) openSnapshots() {
	g.weights = newSnapshots("snapshot", weightsBytes, openWeights, g.hold)
	size := func(key snapshotKey) int64 { return selection.SubsetBytes(key.dataset.Index.Chunks()) }
	g.subsets = newSnapshots("subset", size, g.openSubset, g.hold)
	g.quarantines = newSnapshots("quarantine", func(snapshotKey) int64 { return quarantineBytes }, g.openQuarantine, g.hold)
	g.quarantines.held = quarantine.bytes
}
