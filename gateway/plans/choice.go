package plans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/selection"
	"github.com/millrace-data/millrace/shuffle"
)

// choice is what a plan is made with beside the dataset. It maps the samples of a plan to those of the dataset.
type choice struct {
	weights    *Weights          // with importance: a plan's samples are draws
	subset     *selection.Subset // with a subset: a plan's samples are its members
	quarantine *shuffle.Quarantine
}

// choose opens what a plan is made with, and returns the function that ends its use.
func (p *Plans) choose(ctx context.Context, d *Dataset, a address.Plan) (c choice, _ func(), err error) {
	var leaves []func()
	leave := func() {
		for _, l := range slices.Backward(leaves) {
			l()
		}
	}
	ended := false
	defer func() {
		if !ended { // an error, or a panic
			leave()
		}
	}()
	var end func()
	if a.Params.Importance != "" {
		if c.weights, end, err = p.OpenWeights(ctx, d, a.Params.Importance); err != nil {
			return c, nil, err
		}
		leaves = append(leaves, end)
	}
	if a.Params.Subset != "" {
		if c.subset, end, err = p.subsets.acquire(ctx, openedKey{dataset: d, name: a.Params.Subset}); err != nil {
			return c, nil, err
		}
		leaves = append(leaves, end)
	}
	if a.Quarantine != "" {
		key := openedKey{dataset: d, name: a.Quarantine, params: shuffle.Params{Seed: a.Params.Seed, Subset: a.Params.Subset}}
		q, end, err := p.quarantines.acquire(ctx, key)
		if err != nil {
			return c, nil, err
		}
		leaves = append(leaves, end)
		c.quarantine = q.Quarantine
	}
	ended = true
	return c, leave, nil
}

// chosen is choose for what is open already. ok is false where something is not.
func (p *Plans) chosen(d *Dataset, params shuffle.Params) (c choice, leave func(), ok bool) {
	leave, ok = func() {}, true
	switch {
	case params.Importance != "" && params.Subset != "":
		return c, leave, false
	case params.Importance != "":
		c.weights, leave, ok = p.weights.find(openedKey{dataset: d, name: params.Importance})
	case params.Subset != "":
		c.subset, leave, ok = p.subsets.find(openedKey{dataset: d, name: params.Subset})
	}
	return c, leave, ok
}

// plan makes a plan over a dataset.
func (c choice) plan(params shuffle.Params, first []uint64) (*shuffle.Plan, error) {
	switch {
	case c.weights != nil:
		return shuffle.NewWeightedPlan(params, first, c.weights.Totals())
	case c.subset != nil:
		return shuffle.NewSubsetPlan(params, first, c.subset.Members())
	}
	return shuffle.NewPlan(params, first)
}

// virtual reports whether a plan numbers its samples otherwise than the dataset does.
func (c choice) virtual() bool { return c.weights != nil || c.subset != nil }

// resolve replaces a plan's samples, at some positions of an epoch, by the dataset's samples that are delivered there.
// hot says which of them the plan draws often.
func (c choice) resolve(ctx context.Context, first []uint64, plan *shuffle.Plan, e *shuffle.Epoch, numbers []uint64) (hot []bool, err error) {
	if c.quarantine != nil {
		c.quarantine.Replace(e.Number(), numbers)
	}
	if !c.virtual() {
		return nil, nil
	}
	hot = make([]bool, len(numbers))
	order := make([]int, len(numbers)) // places in numbers, virtual samples ascending
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(numbers[a], numbers[b]) })
	virtual := c.first(plan, e)
	// The weights or the bitmap of a chunk are read once for all of its samples, and dropped: memory does not grow with
	// the number of chunks.
	for len(order) > 0 {
		v := numbers[order[0]]
		chunk := sort.Search(len(virtual)-1, func(i int) bool { return virtual[i+1] > v })
		sample, err := c.of(ctx, chunk, plan, e)
		if err != nil {
			return nil, err
		}
		for len(order) > 0 && numbers[order[0]] < virtual[chunk+1] {
			n := &numbers[order[0]]
			place, often := sample(*n)
			*n, hot[order[0]] = first[chunk]+place, often
			order = order[1:]
		}
	}
	return hot, nil
}

// first returns the prefix sums of a plan's virtual samples by chunk.
func (c choice) first(plan *shuffle.Plan, e *shuffle.Epoch) []uint64 {
	if c.weights != nil {
		return e.Draws().First()
	}
	return plan.Members().First()
}

// of returns a function that maps a virtual sample of a chunk to its place within the chunk. hot says whether the sample
// is drawn often.
func (c choice) of(ctx context.Context, chunk int, plan *shuffle.Plan, e *shuffle.Epoch) (func(v uint64) (place uint64, hot bool), error) {
	if c.subset != nil {
		bitmap, err := c.subset.Bitmap(ctx, chunk)
		return func(v uint64) (uint64, bool) { return plan.Members().Sample(chunk, bitmap, v), false }, err
	}
	weights, err := c.weights.Weights(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("weights of chunk %d: %w", chunk, err)
	}
	often, err := c.weights.Hot(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("hot samples of chunk %d: %w", chunk, err)
	}
	return func(v uint64) (uint64, bool) {
		place := e.Draws().Sample(chunk, weights, v)
		return place, often.Has(place)
	}, nil
}

// orderDigest names the order of all epochs.
func (c choice) orderDigest(plan *shuffle.Plan) string {
	if c.quarantine != nil {
		return c.quarantine.OrderDigest(plan)
	}
	return plan.OrderDigest()
}

// target is one sample of the dataset, as the plans of a choice know it.
type target struct {
	drawn      *drawn // with importance: it is drawn by weight
	number     uint64 // that the plan gives it
	never      bool   // it is not in the subset
	quarantine *shuffle.Quarantine
}

// seek finds a sample of the dataset among those that a plan orders.
func (c choice) seek(ctx context.Context, d *Dataset, plan *shuffle.Plan, sample uint64) (s target, err error) {
	s = target{number: sample, quarantine: c.quarantine}
	switch {
	case c.weights != nil:
		s.drawn, err = c.weights.find(ctx, d.Index, sample)
	case c.subset != nil:
		chunk := d.Index.ChunkOf(sample)
		var bitmap []byte
		if bitmap, err = c.subset.Bitmap(ctx, chunk); err != nil {
			return s, err
		}
		var member bool
		s.number, member = plan.Members().Of(chunk, bitmap, sample-d.Index.First()[chunk])
		s.never = !member
	}
	return s, err
}

// most bounds how often an epoch's order has the sample.
func (s target) most(c choice) uint64 {
	switch {
	case s.never:
		return 0
	case s.drawn != nil:
		return c.weights.mostDraws(s.drawn)
	case s.quarantine != nil:
		return s.quarantine.Most(s.number)
	}
	return 1
}

// positions returns where an epoch's order has the sample, in any order.
func (s target) positions(e *shuffle.Epoch) []uint64 {
	switch {
	case s.never:
		return nil
	case s.drawn != nil:
		return s.drawn.positions(e)
	case s.quarantine == nil:
		return []uint64{e.Position(s.number)}
	case s.quarantine.Has(s.number):
		return nil
	}
	out := []uint64{e.Position(s.number)}
	for _, bad := range s.quarantine.Replaced(e.Number(), s.number) {
		out = append(out, e.Position(bad))
	}
	return out
}
