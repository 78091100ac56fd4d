package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/selection"
	"github.com/millrace-data/millrace/shuffle"
)

// choice is what a plan is made with beside the dataset. It says which samples of the dataset the plan's are.
type choice struct {
	weights    *weights          // with importance: a plan's samples are draws
	subset     *selection.Subset // with a subset: they are its members
	quarantine *shuffle.Quarantine
}

// choose opens what a plan is made with, and returns what ends its use.
func (g *Gateway) choose(ctx context.Context, p planRequest) (c choice, _ func(), err error) {
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
	if p.params.Importance != "" {
		if p.dataset.Importance == nil {
			return c, nil, errNoImportance()
		}
		if c.weights, end, err = g.weights.acquire(ctx, snapshotKey{dataset: p.dataset, name: p.params.Importance}); err != nil {
			return c, nil, err
		}
		leaves = append(leaves, end)
	}
	if p.params.Subset != "" {
		if c.subset, end, err = g.subsets.acquire(ctx, snapshotKey{dataset: p.dataset, name: p.params.Subset}); err != nil {
			return c, nil, err
		}
		leaves = append(leaves, end)
	}
	if p.quarantine != "" {
		key := snapshotKey{dataset: p.dataset, name: p.quarantine, params: shuffle.Params{Seed: p.params.Seed, Subset: p.params.Subset}}
		q, end, err := g.quarantines.acquire(ctx, key)
		if err != nil {
			return c, nil, err
		}
		leaves = append(leaves, end)
		c.quarantine = q.Quarantine
	}
	ended = true
	return c, leave, nil
}

// opened is choose for what is open already. False: something is not.
func (g *Gateway) opened(d *dataset, params shuffle.Params) (c choice, leave func(), ok bool) {
	leave, ok = func() {}, true
	switch {
	case params.Importance != "" && params.Subset != "":
		return c, leave, false
	case params.Importance != "":
		c.weights, leave, ok = g.weights.opened(snapshotKey{dataset: d, name: params.Importance})
	case params.Subset != "":
		c.subset, leave, ok = g.subsets.opened(snapshotKey{dataset: d, name: params.Subset})
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

// virtual says whether the numbers of a plan's samples are not those of the dataset's.
func (c choice) virtual() bool { return c.weights != nil || c.subset != nil }

// resolve replaces the samples of a plan at some positions of an epoch by those of the dataset that are delivered there. hot says
// which of them the plan draws often, if it does.
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
	// The weights or the bitmap of a chunk are read once, however many of its samples are among them, and dropped: what is held
	// does not grow with the chunks.
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

// of returns what tells the virtual samples of a chunk: the place within it of the sample that one is, and whether that is hot.
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

// sought is one sample of the dataset, as the plans of a choice know it.
type sought struct {
	drawn      *drawn // with importance: it is drawn by weight
	number     uint64 // of the plan's sample that it is
	never      bool   // it is not of the subset
	quarantine *shuffle.Quarantine
}

// seek finds a sample of the dataset among those that a plan orders.
func (c choice) seek(ctx context.Context, d *dataset, plan *shuffle.Plan, sample uint64) (s sought, err error) {
	s = sought{number: sample, quarantine: c.quarantine}
	switch {
	case c.weights != nil:
		s.drawn, err = c.weights.find(ctx, d, sample)
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
func (s sought) most(c choice) uint64 {
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
func (s sought) positions(e *shuffle.Epoch) []uint64 {
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
