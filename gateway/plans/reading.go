package plans

import (
	"context"
	"slices"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// maxKept bounds the samples of a batch whose division among homes an epoch keeps.
const maxKept = 1 << 20

// Reading is the place of one batch in the order of its epoch, with what its plan needs to name the samples.
type Reading struct {
	shuffle.Cursor // what the tiers below are told of the reader

	dataset *Dataset
	choice  choice
	mixed   *mixedReading // nil: the dataset is no mixture
	leave   func()
}

// Leave ends the use of the plan and its epoch.
func (r Reading) Leave() { r.leave() }

// Read prepares the epoch of a batch.
func (p *Plans) Read(ctx context.Context, d *Dataset, b address.Batch) (_ Reading, err error) {
	if d.mixture != nil {
		return p.readMixed(ctx, d, b)
	}
	c, leaveChoice, err := p.choose(ctx, d, b.Plan)
	if err != nil {
		return Reading{}, err
	}
	left := leaveChoice
	defer func() {
		if left != nil { // an error, or a panic
			left()
		}
	}()
	key := planKey{dataset: d, params: b.Params, epoch: b.Epoch, isEpoch: true, dealt: dealtBytes(b.Plan)}
	plan, epoch, leavePlan, err := p.cache.epoch(ctx, key, c)
	if err != nil {
		return Reading{}, err
	}
	if err := b.CheckSplit(plan); err != nil {
		leavePlan()
		return Reading{}, err
	}
	left = nil
	first := b.Number * b.BatchSize
	return Reading{
		Cursor: shuffle.Cursor{
			Plan: plan, Epoch: epoch,
			First: first, End: min(first+b.BatchSize, b.Samples), BatchSize: b.BatchSize,
			Rank: b.Rank, WorldSize: b.WorldSize, Split: b.Split, Homes: b.Homes, Dealt: b.Deals(), Tail: b.Tail,
		},
		dataset: d,
		choice:  c,
		leave:   func() { leavePlan(); leaveChoice() },
	}, nil
}

// Numbers are the samples that a batch needs, by their numbers in the index.
type Numbers struct {
	Numbers []uint64 // in the order of the epoch
	Hot     []bool   // which of them the plan draws often; empty: none
	Places  []int    // with shares by homes: the distance of each from the batch's first position
}

// Numbers names the samples at the positions of a share; where shares follow homes, those of them that fall to the
// rank. It uses the memory of dst.
func (r Reading) Numbers(ctx context.Context, b address.Batch, positions shuffle.Share, dst []uint64) (n Numbers, err error) {
	n.Numbers = dst[:0]
	if r.mixed != nil {
		n.Numbers = r.mixed.appendNumbers(n.Numbers, r.dataset.Index.(*mixedIndex))
		return n, nil
	}
	if b.Follows() {
		n.Places = r.Epoch.DealHomes(positions, b.Rank, b.WorldSize, b.Homes)
		for _, place := range n.Places {
			n.Numbers = append(n.Numbers, r.Epoch.At((positions.First+uint64(place))%b.Samples))
		}
	} else {
		n.Numbers = r.Epoch.AppendShare(slices.Grow(n.Numbers, int(positions.Count)), positions)
	}
	n.Hot, err = r.choice.resolve(ctx, r.dataset.Index.First(), r.Plan, r.Epoch, n.Numbers)
	return n, err
}

// samplesAt returns the samples at ascending positions. Positions past the end of the epoch pad the last batch.
func (r Reading) samplesAt(ctx context.Context, positions []uint64) ([]uint64, error) {
	samples := r.dataset.Index.Samples()
	out := make([]uint64, 0, len(positions))
	for len(positions) > 0 { // one contiguous run after the other
		lo, n := positions[0]%samples, uint64(1)
		for n < uint64(len(positions)) && positions[n] == positions[0]+n && lo+n < samples {
			n++
		}
		out = r.Epoch.Append(out, lo, lo+n)
		positions = positions[n:]
	}
	_, err := r.choice.resolve(ctx, r.dataset.Index.First(), r.Plan, r.Epoch, out)
	return out, err
}

// The memory to plan a request, in bytes.
const (
	// bytesPerSample is for each sample that is located: 116 for the sample (number 8, place 32, length 4, range 24,
	// segment 24 twice) and up to 100 for a chunk that holds no other sample of the batch.
	bytesPerSample = 216
	bytesPerDraw   = 16 // more, for a sample that is drawn by importance or dealt

	// For each home, and for each sample of a global batch that is shared out by homes.
	bytesPerHome       = 64
	homeBytesPerSample = 20
)

// PlanningBytes is the memory to locate the samples of a batch.
func PlanningBytes(d *Dataset, b address.Batch) int64 {
	share, positions := b.Share()
	switch {
	case b.Follows():
		return int64(share.Count)*(bytesPerSample+bytesPerDraw) + int64(positions.Count)*homeBytesPerSample + int64(b.Homes)*bytesPerHome
	case b.Deals() || b.Params.Importance != "" || b.Params.Subset != "" || d.mixture != nil:
		return int64(positions.Count) * (bytesPerSample + bytesPerDraw)
	}
	return int64(positions.Count) * bytesPerSample
}

// dealtBytes is what an epoch keeps of batches that were shared out by homes.
func dealtBytes(a address.Plan) int64 {
	if !a.Follows() {
		return 0
	}
	return planOverhead + shuffle.KeptDeals*4*int64(min(a.BatchSize, maxKept))
}
