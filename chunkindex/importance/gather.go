package importance

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Limits of a group of reports, which consists of whole batches and is read concurrently.
const (
	readers      = 16
	groupReports = 1024
	groupBytes   = 8 << 20   // in memory four to five times as much, including derived data
	batchBytes   = 256 << 20 // maximum size of the reports of one batch
)

// gatherer combines the reports of an epoch into weights, batch by batch in ascending order. A
// sample at several positions gets the weight of the highest position.
type gatherer struct {
	log     *Log
	request *FreezeRequest
	table   []uint32
	weights []uint32 // weights of all samples
	frozen  Frozen

	group []objstore.Object // reports of whole batches, except possibly the last batch
	bytes int64
	batch uint64 // batch of the last object
	own   int64  // bytes of the reports of that batch
}

// begin gives every sample the weight that applies without a report.
func (g *gatherer) begin(ctx context.Context) error {
	q := g.request
	g.weights = make([]uint32, q.First[len(q.First)-1])
	if q.Base == nil {
		median := g.table[(q.BatchSize-1)/2]
		for i := range g.weights {
			g.weights[i] = median
		}
		return nil
	}
	for i := range len(q.First) - 1 {
		b, err := q.Base.read(ctx, i) // weights without repetition
		if err != nil {
			return fmt.Errorf("base snapshot %.12s: %w", q.Base.digest, err)
		}
		copy(g.weights[q.First[i]:], b.weights)
	}
	return nil
}

func (g *gatherer) run(ctx context.Context) error {
	q := g.request
	prefix := g.log.epochPrefix(q.Plan, q.Epoch)
	err := g.log.cfg.Reader.List(ctx, prefix, func(obj objstore.Object) error {
		if strings.HasSuffix(obj.Key, "/") {
			return nil // empty directory object that a copy tool creates
		}
		n, err := parseName(strings.TrimPrefix(obj.Key, prefix))
		if err != nil {
			return fmt.Errorf("%s: %w", obj.Key, err)
		}
		if n.batch != g.batch || len(g.group) == 0 {
			if len(g.group) >= groupReports || g.bytes >= groupBytes {
				if err := g.fold(ctx); err != nil {
					return err
				}
			}
			g.batch, g.own = n.batch, 0
		}
		g.own += obj.Size
		if g.own > batchBytes {
			return fmt.Errorf("batch %d: %w", n.batch, corrupt("its reports have more than %d bytes", batchBytes))
		}
		g.group = append(g.group, obj)
		g.bytes += obj.Size
		return nil
	})
	if err != nil {
		return err
	}
	return g.fold(ctx)
}

// fold reads the reports of the group and sets the weights of the samples at their positions.
func (g *gatherer) fold(ctx context.Context) error {
	reports, err := g.read(ctx)
	if err != nil {
		return err
	}
	g.frozen.Reports += uint64(len(reports))
	g.group, g.bytes = g.group[:0], 0
	var positions []uint64
	var weights []uint32
	for len(reports) > 0 {
		n := 1
		for n < len(reports) && reports[n].Batch == reports[0].Batch {
			n++
		}
		if err := g.check(reports[:n]); err != nil {
			return err
		}
		ranked := fold(reports[:n], g.table)
		positions, weights = append(positions, ranked.positions...), append(weights, ranked.weights...)
		g.frozen.Conflicts += uint64(ranked.conflicts)
		clear(reports[:n]) // releases memory
		reports = reports[n:]
	}
	if len(positions) == 0 {
		return nil
	}
	g.frozen.Positions += uint64(len(positions))
	samples, err := g.request.Resolve(ctx, positions)
	if err != nil {
		return fmt.Errorf("samples at positions %d to %d: %w", positions[0], positions[len(positions)-1], err)
	}
	if len(samples) != len(positions) {
		return fmt.Errorf("the plan returned %d samples for %d positions", len(samples), len(positions))
	}
	for i, s := range samples {
		if s >= uint64(len(g.weights)) {
			return fmt.Errorf("sample %d at position %d does not exist: the dataset has %d samples", s, positions[i], len(g.weights))
		}
		g.weights[s] = weights[i]
	}
	return nil
}

// check compares the reports of one batch with the plan's batch size and with one another.
func (g *gatherer) check(reports []*Report) error {
	size := g.request.BatchSize
	for _, r := range reports {
		if r.Count > size || r.First/size != r.Batch || r.First%size != 0 || r.Count != reports[0].Count {
			return fmt.Errorf("batch %d: %w", r.Batch,
				corrupt("a report has %d positions from %d on, but the batches of the plan have %d", r.Count, r.First, size))
		}
	}
	return nil
}

// read fetches the group's reports in the order of their keys.
func (g *gatherer) read(ctx context.Context) ([]*Report, error) {
	reports := make([]*Report, len(g.group))
	return reports, parallel.Each(ctx, readers, len(reports), func(ctx context.Context, _, i int) (err error) {
		reports[i], err = g.log.read(ctx, g.group[i], g.request.Plan, g.request.Epoch)
		return err
	})
}
