package gateway

import (
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/budget"
)

// reservePlans reserves memory for the plans of datasets, beyond the memory reserved earlier, for
// the lifetime of the budget. Batches must not wait for plans. The caller holds serving.
func (g *Gateway) reservePlans(all []*dataset) error {
	b := g.cfg.Budget
	indexes := make([]plans.Index, 0, len(all))
	for _, d := range all {
		indexes = append(indexes, d.Index)
	}
	want := max(g.planned, planMemory(g.cfg.PlanBytes, b.Total(), indexes))
	if _, err := b.Reserve(context.Background(), want-g.planned); err != nil { // waits only briefly: a reservation fails soon
		return fmt.Errorf("the memory budget of %d bytes, %d in use, has no room for %d bytes of plans", b.Total(), b.InUse(), want)
	}
	g.planned = want
	g.plans.Allow(want)
	return nil
}

// PlanMemory returns the memory that New reserves for plans out of a budget of total bytes, without
// Config.PlanBytes.
func PlanMemory(total int64, indexes []*chunkindex.Index) int64 {
	all := make([]plans.Index, len(indexes))
	for i, x := range indexes {
		all[i] = x
	}
	return planMemory(defaultPlanBytes, total, all)
}

// planMemory returns at least the memory for one epoch of the largest dataset.
func planMemory(want, total int64, indexes []plans.Index) int64 {
	return max(min(want, total/64), plans.LeastBytes(indexes))
}

// unreserved is the memory in bytes that a request may use without a reservation, which is the size
// of its connection's buffers.
const unreserved = 64 << 10

// memory reserves memory for requests from the budget.
type memory struct{ budget *budget.Budget }

// Reserve reserves memory to plan a large request. A small request counts as part of its
// connection. Reserve must be called before other reservations of the request, to prevent deadlocks
// between requests.
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

// Hold reserves memory that outlives a request.
func (m memory) Hold(ctx context.Context, n int64) (plans.Reservation, error) {
	r, err := m.budget.Reserve(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("plan a request: %w", err)
	}
	return r, nil
}

// reserve reserves memory to plan a request.
func (g *Gateway) reserve(ctx context.Context, n int64) (release func(), err error) {
	return memory{g.cfg.Budget}.Reserve(ctx, n)
}

// await reserves memory to plan a request until held is dropped, and records the wait in the access
// log line.
func (g *Gateway) await(x *exchange, held *plans.Holds, n int64) error {
	defer x.log.Leave(x.log.Enter(timing.Wait))
	return held.Add(g.reserve(x.r.Context(), n))
}

// reserveNow reserves memory without waiting, for a request that holds memory already.
func (g *Gateway) reserveNow(n int64) (release func(), err error) {
	if n <= unreserved {
		return func() {}, nil
	}
	r, ok := g.cfg.Budget.ReserveNow(n)
	if !ok {
		return nil, fmt.Errorf("convert values to %d bytes: %w", n, budget.ErrOverloaded)
	}
	return r.Release, nil
}
