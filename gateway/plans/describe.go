package plans

import (
	"context"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// PlanInfo has all parameters of a plan. address.Plan.Values returns it.
type PlanInfo map[string]any

func newPlanInfo(d *Dataset, a address.Plan) PlanInfo {
	info := PlanInfo(a.Values())
	if d.mixture != nil {
		info["mixture"] = true
	}
	return info
}

// EpochInfo describes an epoch under a plan, so that users can compare plans.
type EpochInfo struct {
	Dataset       string       `json:"dataset"`
	Epoch         uint64       `json:"epoch"`
	Parameters    PlanInfo     `json:"parameters"`
	OrderVersion  int          `json:"order_version"`
	OrderDigest   string       `json:"order_digest"`
	PlanDigests   []PlanDigest `json:"plan_digests"`
	Batches       uint64       `json:"batches"`
	Samples       uint64       `json:"samples"`
	Bytes         *int64       `json:"bytes,omitempty"` // omitted with a subset, quarantine or mixture, whose total bytes are unknown
	Reads         uint64       `json:"chunk_reads"`
	First         uint64       `json:"first_batch_chunks,omitempty"` // maximum chunks of the first batch; omitted for a mixture
	*varianceInfo              // omitted for a mixture, and if no batch has two samples
	Memory        uint64       `json:"window_memory"`
	Moved         *float64     `json:"moved,omitempty"` // with share=locality: share of samples that ranks read from other homes
	*weightsInfo               // with importance
	Sources       []SourceInfo `json:"sources,omitempty"`  // sources of a mixture
	Schedule      [][]uint64   `json:"schedule,omitempty"` // segments after the first: of each, its first position and the weight of each source
	Links         EpochLinks   `json:"links"`
}

// PlanDigest is the digest of a plan without its quarantine, for the state of a run
// (docs/spec/state.md). It applies to positions of the run after Position.
type PlanDigest struct {
	Position uint64 `json:"position"`
	Digest   string `json:"digest"`
}

// EpochLinks are the URLs of an epoch.
type EpochLinks struct {
	Self  string `json:"self"`
	Batch string `json:"batch,omitempty"` // first batch
	Draws string `json:"draws,omitempty"` // picture of the chunks that the batches draw from; omitted if the plan has no such picture
}

// varianceInfo is the variance of class counts between batches of sorted data, relative to
// independent draws.
type varianceInfo struct {
	Chunk   float64 `json:"expected_batch_variance"` // variance if each chunk is a class
	Ten     float64 `json:"expected_batch_variance_10"`
	Hundred float64 `json:"expected_batch_variance_100"`
}

func newVarianceInfo(plan *shuffle.Plan, batchSize uint64) *varianceInfo {
	v, ok := plan.BatchVariance(batchSize)
	if !ok {
		return nil
	}
	digits := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	return &varianceInfo{Chunk: digits(v.Chunk), Ten: digits(v.Ten), Hundred: digits(v.Hundred)}
}

// firstChunks returns the maximum number of chunks that the first batch reads.
func firstChunks(d *Dataset, a address.Plan) uint64 {
	most := min(a.BatchSize, uint64(d.Index.Chunks()))
	if _, ok := a.Buckets(); !ok && shuffle.UsesWindow(a.Params.Shuffle) {
		most = min(most, a.Params.Window)
	}
	return most
}

// withBlock returns the memory of an order with the samples of one block of its buckets, at their
// average length: their chunks are needed longer.
func withBlock(memory uint64, d *Dataset, a address.Plan) uint64 {
	if _, ok := a.Buckets(); !ok || d.Index.Samples() == 0 {
		return memory
	}
	block := min(a.Bucket*a.BatchSize, a.Samples)
	return min(memory+block*uint64(d.Index.Bytes())/d.Index.Samples(), max(memory, uint64(d.Index.Bytes())))
}

// DescribeBytes returns the memory needed to describe an epoch: the length of each chunk, and with
// share=locality an epoch and the homes of 2^18 samples.
func DescribeBytes(d *Dataset, a address.Plan) int64 {
	const perChunk, homes = 8, 2 << 20
	n := perChunk * int64(d.Index.Chunks())
	if a.Follows() {
		n += d.epochBytes(a.Params) + homes
	}
	return n
}

// Describe describes an epoch.
func (p *Plans) Describe(ctx context.Context, held *Holds, d *Dataset, b address.Batch) (EpochInfo, error) {
	info := EpochInfo{
		Dataset: d.Name(), Epoch: b.Epoch, OrderVersion: shuffle.OrderVersion, Parameters: newPlanInfo(d, b.Plan),
		Batches: b.Batching().Batches(), Samples: b.Samples, Links: EpochLinks{Self: b.EpochURL(b.Epoch)},
	}
	if info.Batches > 0 {
		info.Links.Batch = b.URL(address.Body, 0)
	}
	_, bucketed := b.Buckets()
	if d.mixture == nil && !bucketed && !(b.Balances() && b.WorldSize > 1) && b.Sharing == shuffle.Contiguous {
		info.Links.Draws = fmt.Sprintf("/v1/datasets/%s/epochs/%d/draws?%s", b.Dataset, b.Epoch, b.Canonical())
	}
	if d.mixture != nil {
		err := p.describeMixed(ctx, held, d, b.Plan, &info)
		return info, err
	}
	plan, c, err := p.plan(ctx, held, d, b.Plan)
	if err != nil {
		return EpochInfo{}, err
	}
	info.OrderDigest, info.Reads = bucketDigest(c.orderDigest(plan), b.Plan), plan.Reads()
	info.PlanDigests = []PlanDigest{{Digest: bucketDigest(plan.OrderDigest(), b.Plan)}}
	if b.Params.Subset == "" && b.Quarantine == "" {
		bytes := d.Index.Bytes()
		info.Bytes = &bytes
	}
	if c.weights != nil {
		drawn := c.weights.info()
		info.weightsInfo = &drawn
	}
	if b.Sharing != shuffle.Contiguous {
		moved := plan.Moved(b.Batching(), b.WorldSize, b.Homes)
		info.Moved = &moved
	}
	info.Memory = withBlock(shuffle.Memory(b.Params, d.chunkLengths()), d, b.Plan)
	info.First = firstChunks(d, b.Plan)
	if !bucketed { // the formula assumes that batches do not depend on the samples
		info.varianceInfo = newVarianceInfo(plan, b.BatchSize)
	}
	return info, nil
}
