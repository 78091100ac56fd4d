package plans

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// Weights is an open snapshot of weights.
type Weights struct{ *importance.Snapshot }

// OpenWeights acquires a snapshot by its digest.
func (p *Plans) OpenWeights(ctx context.Context, held *Holds, d *Dataset, digest string) (*Weights, error) {
	if err := d.CheckImportance(); err != nil {
		return nil, err
	}
	return p.weights.acquire(ctx, held, key{dataset: d, name: digest})
}

// openWeights opens the snapshot of a key.
func openWeights(ctx context.Context, k key) (*Weights, error) {
	d := k.dataset
	snapshot, err := d.Importance.Open(ctx, k.name, d.Index.Generation(), d.Index.First())
	if err != nil {
		return nil, d.importanceRefusal(err)
	}
	return &Weights{snapshot}, nil
}

// Memory of an open snapshot in bytes: total, checksum and offset of each chunk, and the most
// recently used weights.
const (
	snapshotOverhead = 4<<20 + 8<<10
	bytesPerWeighed  = 20
)

func weightsBytes(k key) int64 {
	return snapshotOverhead + bytesPerWeighed*int64(k.dataset.Index.Chunks())
}

// importanceRefusal converts errors of Importance that the caller caused into refusals. It returns
// other errors unchanged, for the gateway's error table.
func (d *Dataset) importanceRefusal(err error) error {
	switch {
	case errors.Is(err, importance.ErrCorrupt): // a damaged object may cause other errors too
		return err
	case errors.Is(err, importance.ErrGeneration):
		return address.Refuse(address.Invalid, "%v; %s", err, d.generationText()).Because(err)
	case errors.Is(err, importance.ErrInvalid):
		return address.Refuse(address.Invalid, "%s", strings.ReplaceAll(err.Error(), "\n", "; ")).Because(err)
	}
	return err
}

// reportsAtOnce is the maximum number of batches whose reports are stored concurrently.
const reportsAtOnce = 16

// AddReports stores reports. It stores the reports of one global batch sequentially, so that each
// is compared with the earlier ones. It returns the number of positions with accepted losses.
func (d *Dataset) AddReports(ctx context.Context, reports []importance.Report) (int, error) {
	type globalBatch struct {
		plan         string
		epoch, batch uint64
	}
	byBatch := map[globalBatch][]importance.Report{}
	accepted := 0
	for _, r := range reports {
		key := globalBatch{r.Plan, r.Epoch, r.Batch}
		byBatch[key] = append(byBatch[key], r)
		accepted += len(r.Positions)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reportsAtOnce)
	for _, batch := range byBatch {
		group.Go(func() error {
			for _, r := range batch {
				if _, err := d.Importance.Add(ctx, r); err != nil {
					return d.importanceRefusal(fmt.Errorf("batch %d of epoch %d: %w", r.Batch, r.Epoch, err))
				}
			}
			return nil
		})
	}
	return accepted, group.Wait()
}

// FreezeBytes returns the memory needed to freeze the weights of a dataset: a weight for each
// sample, its chunks, and the reports that are read together.
func (d *Dataset) FreezeBytes() int64 {
	const reports, perSample = 64 << 20, 64
	samples := int64(d.Index.Samples())
	return 4*samples + 16*int64(d.Index.Chunks()) + min(reports, perSample*samples)
}

// Freeze creates a snapshot of the losses that a reporter has reported for an epoch. q has the
// reporter, the share and the repetition.
func (p *Plans) Freeze(ctx context.Context, held *Holds, d *Dataset, b address.Batch, q importance.FreezeRequest) (importance.Frozen, error) {
	r, err := p.undivided(ctx, held, d, b) // reports have positions
	if err != nil {
		return importance.Frozen{}, err
	}
	q.Plan, q.Epoch, q.Generation = b.Identity(), b.Epoch, d.Index.Generation()
	q.BatchSize, q.First, q.Resolve = b.BatchSize, d.Index.First(), r.samplesAt
	if r.choice.weights != nil {
		q.Base = r.choice.weights.Snapshot
	}
	frozen, err := d.Importance.Freeze(ctx, q)
	if err != nil {
		return frozen, d.importanceRefusal(err)
	}
	return frozen, nil
}

// SnapshotInfo describes a snapshot of weights.
type SnapshotInfo struct {
	Snapshot   string `json:"snapshot"` // name of the snapshot: the value of the parameter importance
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
	Plan       string `json:"plan"`           // plan of the reported losses
	Epoch      uint64 `json:"epoch"`          // epoch of the reported losses
	Base       string `json:"base,omitempty"` // snapshot that supplies the weights of samples without a report
	Samples    uint64 `json:"samples"`
	Reported   uint64 `json:"reported"` // positions with a loss
	Repeat     uint32 `json:"repeat"`   // factor for the weight of a hot sample
	weightsInfo
}

// weightsInfo describes the effect of weights on an epoch.
type weightsInfo struct {
	Coverage   float64 `json:"coverage"`              // expected share of the samples that an epoch delivers at least once
	Effective  float64 `json:"effective_sample_size"` // in samples
	HotSamples uint64  `json:"hot_samples"`
	HotShare   float64 `json:"hot_share"` // share of all samples that is hot
}

func (w *Weights) info() weightsInfo {
	return weightsInfo{Coverage: w.Coverage(), Effective: w.EffectiveSampleSize(), HotSamples: w.HotSamples(), HotShare: w.HotShare()}
}

// Describe describes the snapshot for a response about a dataset.
func (w *Weights) Describe(d *Dataset) SnapshotInfo {
	return SnapshotInfo{
		Snapshot: w.Digest(), Dataset: d.Name(), Generation: w.Generation(), Plan: w.Plan(), Epoch: w.Epoch(), Base: w.Base(),
		Samples: w.Samples(), Reported: w.Positions(), Repeat: w.Repeat(), weightsInfo: w.info(),
	}
}

// weightedSample is a sample with its place among the weights of its chunk.
type weightedSample struct {
	chunk   int
	weights []uint32 // weights of the chunk's samples
	place   uint64   // place of the sample in the chunk
}

func (w *Weights) find(ctx context.Context, x Places, sample uint64) (*weightedSample, error) {
	chunk := x.ChunkOf(sample)
	all, err := w.Weights(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("weights of chunk %d: %w", chunk, err)
	}
	return &weightedSample{chunk, all, sample - x.First()[chunk]}, nil
}

// mostDraws bounds the number of times that an epoch draws a sample: less than one above its
// expectation.
func (w *Weights) mostDraws(s *weightedSample) uint64 {
	var total uint64
	for _, t := range w.Totals() {
		total += t
	}
	hi, lo := bits.Mul64(uint64(s.weights[s.place]), w.Samples())
	n, _ := bits.Div64(hi, lo, total) // the weight is part of total, so hi < total
	return n + 1
}

// positions returns the positions of the sample in an epoch's order.
func (s *weightedSample) positions(e *shuffle.Epoch) []uint64 {
	lo, hi := e.Draws().Of(s.chunk, s.weights, s.place)
	var out []uint64
	for v := lo; v < hi; v++ {
		out = append(out, e.Position(v))
	}
	return out
}
