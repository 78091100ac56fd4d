package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
)

// groupShare is the divisor of the memory budget that gives the memory for batches measured
// together.
const groupShare = 8

// grouped returns the number of batches, of count, that are measured together.
func (g *Gateway) grouped(a batchRequest, count uint64) uint64 {
	return min(count, max(1, uint64(g.cfg.Budget.Total()/groupShare/max(groupBytes(a), 1))))
}

// groupBytes returns the memory of one batch in a group.
func groupBytes(a batchRequest) int64 {
	_, positions := a.Share()
	return body.GroupBytes(a.dataset.Dataset, a.View, positions.Count)
}

// work estimates the processor time to lay out count batches.
func (g *Gateway) work(a batchRequest, count uint64) time.Duration {
	together := g.grouped(a, count)
	_, positions := a.Share()
	return body.Work(a.dataset.Dataset, a.Batch, positions.Count*together) * time.Duration(count) / time.Duration(together)
}

// measure lays out count batches starting at a, and calls visit for each in order.
func (g *Gateway) measure(x *exchange, a batchRequest, count uint64, visit func(a batchRequest, b *body.Body) error) error {
	if a.answer().Converts() {
		return g.measureEach(x, a, count, visit)
	}
	together := g.grouped(a, count)
	for count > 0 {
		n := min(together, count)
		if err := g.measureGroup(x, a, n, visit); err != nil {
			return err
		}
		a.Number += n
		count -= n
	}
	return nil
}

// measureEach does the work of measure one batch after another, for bodies that require the samples.
func (g *Gateway) measureEach(x *exchange, a batchRequest, count uint64, visit func(a batchRequest, b *body.Body) error) error {
	ctx := x.r.Context()
	var held plans.Holds
	defer held.Drop()
	if err := held.Add(g.measuring.Take(ctx)); err != nil {
		return err
	}
	if err := g.await(x, &held, planningBytes(a)); err != nil {
		return err
	}
	for ; count > 0; count-- {
		var laidOut plans.Holds
		_, b, err := g.laidOut(ctx, x, &laidOut, a)
		if err == nil {
			err = visit(a, b)
		}
		laidOut.Drop()
		if err != nil {
			return fmt.Errorf("batch %d: %w", a.Number, err)
		}
		a.Number++
	}
	return nil
}

// toMeasure acquires the resources for a group: a measuring slot, memory, and a planning slot.
func (g *Gateway) toMeasure(x *exchange, held *plans.Holds, bytes int64) error {
	defer x.log.Leave(x.log.Enter(timing.Wait))
	ctx := x.r.Context()
	if err := held.Add(g.measuring.Take(ctx)); err != nil {
		return err
	}
	if err := held.Add(g.reserve(ctx, bytes)); err != nil {
		return err
	}
	return held.Add(g.placesOf(x.dataset).Take(ctx))
}

// measureGroup does the work of measure for batches that fit in memory together.
func (g *Gateway) measureGroup(x *exchange, a batchRequest, count uint64, visit func(a batchRequest, b *body.Body) error) error {
	var held plans.Holds
	defer held.Drop()
	largest, _ := a.Share()
	if err := g.toMeasure(x, &held, int64(count)*groupBytes(a)+shareBytes(a, largest.Count)); err != nil {
		return err
	}
	defer x.log.Leave(x.log.Enter(timing.Locate))
	ctx := x.r.Context()
	group := g.bodies.NewGroup()
	defer group.Close()
	for i := range count {
		of := a
		of.Number += i
		if err := g.addToGroup(ctx, group, of); err != nil {
			return fmt.Errorf("batch %d: %w", of.Number, err)
		}
	}
	if err := group.Find(ctx, a.answer()); err != nil {
		return fmt.Errorf("batches %d to %d: %w", a.Number, a.Number+count-1, err)
	}
	for i := range count {
		of := a
		of.Number += i
		b, err := group.LayOut(ctx, int(i), of.answer())
		if err == nil {
			err = visit(of, b)
		}
		if err != nil {
			return fmt.Errorf("batch %d: %w", of.Number, err)
		}
	}
	return nil
}

// addToGroup adds a batch to a group.
func (g *Gateway) addToGroup(ctx context.Context, group *body.Group, a batchRequest) error {
	var held plans.Holds
	defer held.Drop()
	r, err := g.plans.Order(ctx, &held, a.dataset.Dataset, a.Batch)
	if err != nil {
		return err
	}
	return group.Add(ctx, r, a.Batch)
}
