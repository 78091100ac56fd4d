package gateway

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/budget"
)

// reservePlans takes the memory of the plans of datasets out of the budget, as far as it is not taken yet, for as long as the
// budget lives: the next batch must not wait for it. The caller holds serving.
func (g *Gateway) reservePlans(all []*dataset) error {
	b := g.cfg.Budget
	indexes := make([]plans.Index, 0, len(all))
	for _, d := range all {
		indexes = append(indexes, d.Index)
	}
	want := max(g.planned, planMemory(g.cfg.PlanBytes, b.Total(), indexes))
	if _, err := b.Reserve(context.Background(), want-g.planned); err != nil { // not for long: a reservation is given up soon
		return fmt.Errorf("the memory budget of %d bytes, %d of them in use, has no room for %d bytes of plans", b.Total(), b.InUse(), want)
	}
	g.planned = want
	g.plans.Allow(want)
	return nil
}

// PlanMemory is what New reserves for plans out of a budget of total bytes, without Config.PlanBytes.
func PlanMemory(total int64, indexes []*chunkindex.Index) int64 {
	all := make([]plans.Index, len(indexes))
	for i, x := range indexes {
		all[i] = x
	}
	return planMemory(defaultPlanBytes, total, all)
}

// planMemory always leaves room for one epoch of the largest dataset.
func planMemory(want, total int64, indexes []plans.Index) int64 {
	return max(min(want, total/64), plans.LeastBytes(indexes))
}

// unreserved is the memory that any request may use without a reservation, in bytes: as much as the buffers of its
// connection.
const unreserved = 64 << 10

// memory takes what requests need from the budget.
type memory struct{ budget *budget.Budget }

// Reserve takes the memory to plan a large request. A small one is part of what a connection costs. It comes before
// everything else that the request reserves, so that requests do not wait for each other in a circle.
func (m memory) Reserve(ctx context.Context, n int64) (release func(), err error) {
	if n <= unreserved {
		return func() {}, nil
	}
	r, err := m.Hold(ctx, n)
	if err != nil {
		return nil, err
	}
	return r.Release, nil
}

// Hold takes memory that is kept beyond a request.
func (m memory) Hold(ctx context.Context, n int64) (plans.Reservation, error) {
	r, err := m.budget.Reserve(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("plan a request: %w", err)
	}
	return r, nil
}

// reserve takes memory for a request that is planned.
func (g *Gateway) reserve(ctx context.Context, n int64) (release func(), err error) {
	return memory{g.cfg.Budget}.Reserve(ctx, n)
}

// await is reserve with its time on the access line.
func (g *Gateway) await(x *exchange, n int64) (release func(), err error) {
	defer x.log.Leave(x.log.Enter(timing.Wait))
	return g.reserve(x.r.Context(), n)
}
