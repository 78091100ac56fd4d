package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// weigh opens the snapshot that a plan draws by, and returns what ends its use. Without importance there is none.
func (g *Gateway) weigh(ctx context.Context, p planRequest) (*weights, func(), error) {
	if p.params.Importance == "" {
		return nil, func() {}, nil
	}
	if p.dataset.Importance == nil {
		return nil, nil, errNoImportance()
	}
	return g.weights.acquire(ctx, p.dataset, p.params.Importance)
}

// What an open snapshot holds: total, checksum and offset of each chunk, and the weights used last.
const (
	snapshotOverhead = 4<<20 + 8<<10
	bytesPerWeighed  = 20
)

func (d *dataset) snapshotBytes() int64 {
	return snapshotOverhead + bytesPerWeighed*int64(d.Index.Chunks())
}

// resolve replaces virtual samples by the samples that they are. The weights of a chunk are read once, however
// many of its samples are among them, and dropped: what is held does not grow with the chunks. hot says which of them the
// snapshot calls hot.
func (w *weights) resolve(ctx context.Context, x *chunkindex.Index, draws *shuffle.Draws, numbers []uint64) (hot []bool, err error) {
	hot = make([]bool, len(numbers))
	order := make([]int, len(numbers)) // places in numbers, virtual samples ascending
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	first, drawn := x.First(), draws.First()
	for len(order) > 0 {
		v := numbers[order[0]]
		chunk := sort.Search(len(drawn)-1, func(i int) bool { return drawn[i+1] > v })
		weights, err := w.Weights(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("weights of chunk %d: %w", chunk, err)
		}
		often, err := w.Hot(ctx, chunk)
		if err != nil {
			return nil, fmt.Errorf("hot samples of chunk %d: %w", chunk, err)
		}
		for len(order) > 0 && numbers[order[0]] < drawn[chunk+1] {
			n := &numbers[order[0]]
			place := draws.Sample(chunk, weights, *n)
			*n, hot[order[0]] = first[chunk]+place, often.Has(place)
			order = order[1:]
		}
	}
	return hot, nil
}
