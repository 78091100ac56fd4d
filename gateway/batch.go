package gateway

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// retryDraining is when a client should ask another gateway.
const retryDraining = time.Second

// The resources of one rank's share of a global batch.
const (
	batchBody     = "batch"
	batchManifest = "manifest"
)

// getBatch answers with one rank's share of a global batch.
func (g *Gateway) getBatch(x *exchange) error {
	b, err := g.decodeBatch(x)
	if err != nil {
		return err
	}
	x.w.Header().Set("Vary", "Accept")
	if err := b.negotiate(x.r); err != nil {
		return err
	}
	if err := b.dataset.checkFields(x, b.view); err != nil {
		return err
	}
	return g.answerBatch(x, b)
}

// answerShare sets the headers that follow from the plan alone, answers what they suffice for, and has answer send
// the rest once the share is located.
func (g *Gateway) answerShare(
	x *exchange, b batchRequest, resource, etag string, answer func(shuffle.Cursor, *located) error,
) error {
	share, all := b.share()
	if err := checkShare(all); err != nil {
		return err
	}
	if err := g.acceptSplit(x, b.planRequest); err != nil {
		return err
	}
	b.describe(x.w.Header(), resource, share, etag)
	if resource == batchManifest {
		x.w.Header().Set("Cache-Control", describingControl(b.pinned))
	}
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	release, err := g.await(x, b.planningBytes(share, all)+b.formBytes(share.Count))
	if err != nil {
		return err
	}
	defer release()
	start := time.Now()
	r, err := g.reading(x.r.Context(), b)
	if err != nil {
		return err
	}
	defer r.leave()
	l, err := g.locateShare(x.r.Context(), b, r, all)
	x.log.spent(phasePlan, start)
	if err != nil {
		return err
	}
	if l.scattered {
		l.describePadding(x.w.Header(), b.samples)
	}
	if err := answer(r.Cursor, l); err != nil {
		return err
	}
	g.recycle(l)
	return nil
}

// planningBytes is what it takes to locate the samples of a share among those at all positions.
func (b batchRequest) planningBytes(share, all shuffle.Share) int64 {
	if b.follows() {
		return int64(share.Count)*(planningBytes+drawingBytes) + int64(all.Count)*homeBytesPerSample + int64(b.homes)*bytesPerHome
	}
	if b.deals() || b.params.Importance != "" || b.params.Subset != "" || b.dataset.mixture != nil {
		return int64(all.Count) * (planningBytes + drawingBytes)
	}
	return int64(all.Count) * planningBytes
}

// refuseDraining refuses new work once the lame-duck time is over.
func (g *Gateway) refuseDraining(x *exchange) error {
	if _, over := g.draining(); !over || x.r.Method == http.MethodHead {
		return nil
	}
	return &problem{
		Status: http.StatusServiceUnavailable, Code: codeDraining, Retryable: true, RetryAfter: retryDraining,
		Detail: "this gateway is shutting down; ask another one",
	}
}

// reading is where the reader of a batch stands, with what his plan needs.
type reading struct {
	shuffle.Cursor
	choice
	mixed *mixedReading // of a mixture
	leave func()        // ends the use of the plan, its epoch and what they are made with
}

func (g *Gateway) reading(ctx context.Context, b batchRequest) (_ reading, err error) {
	if b.dataset.mixture != nil {
		return g.mixedReading(ctx, b)
	}
	c, leaveChoice, err := g.choose(ctx, b.planRequest)
	if err != nil {
		return reading{}, err
	}
	left := leaveChoice
	defer func() {
		if left != nil { // an error, or a panic
			left()
		}
	}()
	plan, epoch, leavePlan, err := g.plans.epoch(ctx, b.planKey(), c)
	if err != nil {
		return reading{}, err
	}
	if err := b.refuseSplit(plan); err != nil {
		leavePlan()
		return reading{}, err
	}
	left = nil
	first := b.batch * b.batchSize
	return reading{
		Cursor: shuffle.Cursor{
			Plan: plan, Epoch: epoch,
			First: first, End: min(first+b.batchSize, b.samples), BatchSize: b.batchSize,
			Rank: b.rank, WorldSize: b.worldSize, Split: b.split, Homes: b.homes, Dealt: b.deals(), Tail: b.tail,
		},
		choice: c,
		leave:  func() { leavePlan(); leaveChoice() },
	}, nil
}

// locateShare finds the samples of a share among those at the positions of all.
func (g *Gateway) locateShare(ctx context.Context, b batchRequest, r reading, all shuffle.Share) (*located, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("plan epoch %d: %w", b.epoch, err)
	}
	l := g.scratch.Get().(*located)
	l.first, l.scattered = all.First, b.scattered()
	l.hot = nil
	if err := b.number(ctx, r, all, l); err != nil {
		return nil, err
	}
	if err := l.find(ctx, b.dataset.Index); err != nil {
		return nil, err
	}
	if b.deals() {
		l.deal(b.rank, b.worldSize)
	}
	return l, nil
}

// number finds out which samples stand at the positions of all, or at those of them that fall to the rank.
func (b batchRequest) number(ctx context.Context, r reading, all shuffle.Share, l *located) (err error) {
	if r.mixed != nil {
		l.numbers = r.mixed.appendNumbers(l.numbers[:0], b.dataset.Index.(*mixedIndex))
		return nil
	}
	if b.follows() {
		l.numbers = l.numbers[:0]
		l.pick(r.Epoch, all, b.planRequest)
	} else {
		l.numbers = r.Epoch.AppendShare(slices.Grow(l.numbers[:0], int(all.Count)), all)
	}
	l.hot, err = r.resolve(ctx, b.dataset.Index.First(), r.Plan, r.Epoch, l.numbers)
	return err
}

// planKey names the prepared epoch of a request.
func (b batchRequest) planKey() planKey {
	return planKey{dataset: b.dataset, params: b.params, epoch: b.epoch, isEpoch: true, dealt: b.dealtBytes()}
}

// describe sets the headers that follow from the plan alone.
func (b batchRequest) describe(h http.Header, resource string, share shuffle.Share, etag string) {
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	batches := b.batching().Batches()
	h.Set("ETag", etag)
	h.Set("Cache-Control", cacheControl(b.pinned))
	h.Set("Content-Location", b.url(resource, b.batch))
	h.Set("Millrace-Generation", b.dataset.Index.Generation())
	h.Set("Millrace-Epoch", num(b.epoch))
	h.Set("Millrace-Batch", num(b.batch))
	h.Set("Millrace-Batches", num(batches))
	h.Set("Millrace-Samples", num(share.Count))
	if !b.scattered() {
		h.Set("Millrace-Padded", num(share.Padded))
	}
	if b.batch+1 < batches {
		h.Set("Link", "<"+b.url(resource, b.batch+1)+`>; rel="next"`)
	}
}

// cacheControl lets everybody keep data that a URL pins for ever, and ask again for the rest.
func cacheControl(pinned bool) string {
	if pinned {
		return "public, max-age=31536000, immutable"
	}
	return "no-cache"
}

// descriptionVersion is that of the JSON that describes an epoch, a batch or a snapshot. It changes with each field, so
// that two versions of the program never have one ETag for different bytes.
const descriptionVersion = 1

// describingETag is the ETag of a description, and describingControl for how long it may be kept: the next version of
// the program may say more.
func (b batchRequest) describingETag(resource string) string {
	return b.etag(fmt.Sprintf("%s description %d", resource, descriptionVersion))
}

func describingControl(pinned bool) string {
	if pinned {
		return "public, max-age=3600"
	}
	return "no-cache"
}
