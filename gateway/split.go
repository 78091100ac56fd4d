package gateway

import (
	"context"
	"strings"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// splitContiguous is the neutral value of the parameter split, which no URL holds: each rank takes a stretch of the global
// batch. The other one is shuffle.Locality.
const splitContiguous = "contiguous"

// maxHomes bounds the homes that shares follow: what it takes to share out a batch grows with them.
const maxHomes = 1 << 16

// checkStrata names strata that no plan of these parameters can have.
func (q *query) checkStrata(params shuffle.Params) {
	if params.Strata == 0 || q.failed("shuffle", "window", "strata") {
		return
	}
	params.Importance = ""
	if _, err := shuffle.NewPlan(params, []uint64{0}); err != nil {
		q.fail("strata", "%s", reason(err))
	}
}

// checkSplit names what speaks against shares that follow homes, as far as parameters alone can tell. How many lanes a slot
// order has, the dataset decides.
func (q *query) checkSplit(p planRequest) {
	switch {
	case p.split == shuffle.Contiguous:
		if q.has("homes") {
			q.fail("homes", "has no meaning without split=locality")
		}
	case p.balance == balanceBytes:
		q.fail("split", "locality and balance=bytes exclude each other")
	case p.homes > maxHomes:
		q.fail("split", "locality for more than %d ranks takes homes, at most as many", maxHomes)
	case p.homes > p.worldSize:
		if !q.failed("homes", "world_size") {
			q.fail("homes", "must be at most world_size")
		}
	case p.params.Shuffle != shuffle.Slot && !q.failed("shuffle", "window", "strata", "world_size"):
		params := p.params
		params.Importance = ""
		plan, err := shuffle.NewPlan(params, []uint64{0})
		if err == nil {
			err = plan.CheckSplit(p.worldSize, p.homes)
		}
		q.failSplit(p, err)
	}
}

// failSplit names what cannot be had: the homes, if the request gives their number.
func (q *query) failSplit(p planRequest, err error) {
	switch {
	case err == nil:
	case p.homes != p.worldSize:
		q.fail("homes", "%s", reason(err))
	default:
		q.fail("split", "%s", reason(err))
	}
}

// reason is what an error of shuffle says after the name of what was tried.
func reason(err error) string {
	_, text, _ := strings.Cut(err.Error(), ": ")
	return text
}

// checkSplit refuses shares by homes where the dataset has not enough of them: before a header is sent, and without a read.
func (g *Gateway) checkSplit(ctx context.Context, p planRequest) error {
	if p.split == shuffle.Contiguous || p.params.Shuffle != shuffle.Slot {
		return nil
	}
	params := p.params
	params.Importance = ""
	whole := p
	whole.params, whole.quarantine = params, ""
	c, leaveChoice, err := g.choose(ctx, whole)
	if err != nil {
		return err
	}
	defer leaveChoice()
	plan, leave, err := g.plans.plan(ctx, p.dataset, params, c)
	if err != nil {
		return err
	}
	defer leave()
	return p.refuseSplit(plan)
}

// acceptSplit is checkSplit for a request whose planning the access line tells.
func (g *Gateway) acceptSplit(x *exchange, p planRequest) error {
	defer x.log.spent(phasePlan, time.Now())
	return g.checkSplit(x.r.Context(), p)
}

// refuseSplit is the 400 for a plan that has no such shares.
func (p planRequest) refuseSplit(plan *shuffle.Plan) error {
	if p.split == shuffle.Contiguous {
		return nil
	}
	q := &query{}
	q.failSplit(p, plan.CheckSplit(p.worldSize, p.homes))
	return q.err()
}

// follows says whether shares follow homes. With one home they are those without.
func (p planRequest) follows() bool { return p.split == shuffle.Locality && p.homes > 1 }

// scattered says whether the share of a rank is no stretch of the global batch.
func (p planRequest) scattered() bool { return p.deals() || p.follows() }

// What it takes to share out a batch by homes, for each of them and for each sample of the global batch.
const (
	bytesPerHome       = 64
	homeBytesPerSample = 20
)

// dealtBytes is what an epoch keeps of batches that were shared out by homes.
func (p planRequest) dealtBytes() int64 {
	if !p.follows() {
		return 0
	}
	return planOverhead + shuffle.KeptDeals*4*int64(min(p.batchSize, maxShare))
}

// pick puts the numbers of the samples that fall to a rank by homes in l, which holds none yet, and where they lie in the batch.
func (l *located) pick(e *shuffle.Epoch, all shuffle.Share, p planRequest) {
	l.places = e.DealHomes(all, p.rank, p.worldSize, p.homes)
	for _, place := range l.places {
		l.numbers = append(l.numbers, e.At((all.First+uint64(place))%p.samples))
	}
}
