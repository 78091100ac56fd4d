package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/timing"
	"github.com/millrace-data/millrace/internal/arrival"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/shuffle"
)

// retryNotReady is the Retry-After of a gateway that is not ready.
const retryNotReady = time.Second

// addressed returns the handler that decodes an address and answers it.
func addressed(decode func(*exchange) (batchRequest, error), answer func(*exchange, batchRequest) error) handlerFunc {
	return func(x *exchange) error {
		a, err := decode(x)
		if err != nil {
			return err
		}
		return answer(x, a)
	}
}

// answerAny negotiates the form of a batch and sends the batch.
func (g *Gateway) answerAny(x *exchange, a batchRequest) error {
	x.w.Header().Set("Vary", "Accept")
	if err := a.View.Negotiate(x.accept(), a.Address.Forms); err != nil {
		return err
	}
	if err := x.checkFields(a.dataset, a.View); err != nil {
		return err
	}
	return g.answerBatch(x, a)
}

// answerBatch sends a batch in the negotiated form.
func (g *Gateway) answerBatch(x *exchange, a batchRequest) error {
	answer := a.answer()
	return g.answerShare(x, a, address.Body, answer.ETag, func(r plans.BatchOrder, b *body.Body) error {
		if err := g.layOut(x.r.Context(), x, a.dataset, answer, r.Cursor, b); err != nil {
			return err
		}
		return g.send(x, a.dataset, answer, r.Cursor, b)
	})
}

// answerShare sets the headers that depend only on the address. If the request needs a body, it
// locates the samples and calls send.
func (g *Gateway) answerShare(
	x *exchange, a batchRequest, resource address.Resource, etag string, send func(plans.BatchOrder, *body.Body) error,
) error {
	share, positions := a.Share()
	if err := body.CheckShare(positions); err != nil {
		return err
	}
	h := x.w.Header()
	describeBatch(x, a.Batch, resource, etag)
	if !a.Balances() {
		h.Set("Millrace-Samples", strconv.FormatUint(share.Count, 10))
	}
	if !a.Scattered() {
		h.Set("Millrace-Padded", strconv.FormatUint(share.Padded, 10))
	}
	if answered, err := g.settled(x, etag); answered || err != nil {
		return err
	}
	work := body.Work(a.dataset.Dataset, a.Batch, positions.Count)
	if resource == address.Manifest {
		work *= manifestSamples
	}
	if err := checkWork(work, maxWork); err != nil {
		return err
	}
	if err := g.await(x, &x.held, planningBytes(a)); err != nil {
		return err
	}
	r, b, err := g.locate(x.r.Context(), x, &x.held, a)
	if err != nil {
		return err
	}
	if a.Scattered() {
		h.Set("Millrace-Padded", strconv.FormatUint(b.Padded(a.Samples), 10))
	}
	if a.Balances() {
		h.Set("Millrace-Samples", strconv.Itoa(b.Count()))
		h.Set("Millrace-Batch-Cost", strconv.FormatUint(b.Cost, 10))
	}
	if b.Micro != nil {
		h.Set("Millrace-Micro", strings.Trim(strings.ReplaceAll(fmt.Sprint(b.Micro), " ", ","), "[]"))
	}
	return send(r, b)
}

// Approximate limits of the processor time per request.
const (
	maxWork      = 2 * time.Second
	maxIndexWork = 8 * time.Second // for a list of shards, which a reader needs once per epoch and cannot request in parts

	// manifestSamples is the ratio of the time per sample of a manifest to the time per sample of a
	// stored batch.
	manifestSamples = 4
)

// checkWork rejects a request that needs too much processor time.
func checkWork(work, most time.Duration) error {
	if work <= most {
		return nil
	}
	return invalid("the response requires about %v of CPU time, above the limit of %v: request fewer or smaller batches",
		work.Round(100*time.Millisecond), most)
}

// planningBytes returns the memory needed to locate and lay out the samples of a batch. For a
// balanced batch it returns 0: locate reserves the memory, because the share must be known first.
func planningBytes(a batchRequest) int64 {
	if a.Balances() {
		return 0
	}
	share, _ := a.Share()
	return shareBytes(a, share.Count)
}

// shareBytes returns the memory needed to locate and lay out a share of some samples.
func shareBytes(a batchRequest, samples uint64) int64 {
	return plans.PlanningBytes(a.dataset.Dataset, a.Batch, samples) + body.LayOutBytes(a.dataset.Dataset, a.View, samples)
}

// refuseDraining refuses new work after the lame-duck time.
func (g *Gateway) refuseDraining() error {
	if _, over := g.draining(); !over {
		return nil
	}
	return &problem{
		Code: codeDraining, RetryAfter: retryNotReady,
		Detail: "this gateway is shutting down: use another one",
	}
}

// locate prepares the epoch of a batch and locates its samples. Both are valid until held is
// dropped.
func (g *Gateway) locate(ctx context.Context, x *exchange, held *plans.Holds, a batchRequest) (r plans.BatchOrder, _ *body.Body, err error) {
	r, err = g.order(ctx, x, held, a)
	if err != nil {
		return r, nil, err
	}
	if a.Balances() {
		if err := g.awaitShare(ctx, x, held, shareBytes(a, r.Count())); err != nil {
			return r, nil, err
		}
	}
	free, err := g.place(ctx, x)
	if err != nil {
		return r, nil, err
	}
	defer free()
	defer x.log.Leave(x.log.Enter(timing.Locate))
	b := g.bodies.Get()
	*held = append(*held, func() { g.bodies.Put(b) })
	return r, b, b.Locate(ctx, a.Index, r, a.Batch)
}

// order prepares the epoch of a batch.
func (g *Gateway) order(ctx context.Context, x *exchange, held *plans.Holds, a batchRequest) (r plans.BatchOrder, err error) {
	free, err := g.place(ctx, x)
	if err != nil {
		return r, err
	}
	defer free()
	defer x.log.Leave(x.log.Enter(timing.Plan))
	return g.plans.Order(ctx, held, a.dataset.Dataset, a.Batch)
}

// awaitShare reserves memory to locate a share, without a planning slot.
func (g *Gateway) awaitShare(ctx context.Context, x *exchange, held *plans.Holds, n int64) error {
	defer x.log.Leave(x.log.Enter(timing.Wait))
	return held.Add(g.reserve(ctx, n))
}

// place acquires a planning slot and records the wait in the access line.
func (g *Gateway) place(ctx context.Context, x *exchange) (leave func(), err error) {
	defer x.log.Leave(x.log.Enter(timing.Wait))
	return g.placesOf(x.dataset).Take(ctx)
}

// placesOf returns the planning slots for a dataset. A dataset whose index is read in parts has
// separate slots: its requests hold a slot while they wait for the store, and a hanging store would
// otherwise block all datasets.
func (g *Gateway) placesOf(d *dataset) admission.Places {
	if d.Index.InPart() {
		return d.places
	}
	return g.places
}

// layOut lays out located samples. It reads them first if their values have another form in the
// answer.
func (g *Gateway) layOut(ctx context.Context, x *exchange, d *dataset, answer body.Answer, at shuffle.Cursor, b *body.Body) error {
	if answer.Converts() {
		read, err := g.read(ctx, x, d, at, b, b.Whole())
		if err != nil {
			return err
		}
		b.Load(read, g.reserveNow)
	}
	free, err := g.place(ctx, x)
	if err != nil {
		return err
	}
	defer free()
	defer x.log.Leave(x.log.Enter(timing.Locate))
	return b.LayOut(ctx, answer)
}

// batchRequest is the batch or epoch that a request addresses, with its dataset.
type batchRequest struct {
	*dataset
	address.Batch
}

// answer returns the description of the batch's body.
func (a batchRequest) answer() body.Answer {
	return body.Answer{Dataset: a.dataset.Dataset, View: a.View, ETag: a.ETag()}
}

// decodeEpoch decodes the address of an epoch.
func (g *Gateway) decodeEpoch(x *exchange) (batchRequest, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	q := address.ParseQuery(x.r.URL.RawQuery, address.EpochNames()...)
	return g.resolve(x, q, address.DecodeEpoch(q, x.dataset.Address, chi.URLParam(x.r, "epoch")))
}

// decodeBatch decodes the address of a batch and rejects batches past the end of the epoch.
func (g *Gateway) decodeBatch(x *exchange) (batchRequest, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	q := address.ParseQuery(x.r.URL.RawQuery, address.BatchNames()...)
	a, err := g.resolve(x, q, address.DecodeBatch(q, x.dataset.Address, chi.URLParam(x.r, "epoch"), chi.URLParam(x.r, "batch")))
	if err != nil {
		return a, err
	}
	x.log.hasBatch = true
	return a, a.CheckEnd()
}

// decodeSamples decodes the address of samples by position and rejects positions past the end of
// the epoch.
func (g *Gateway) decodeSamples(x *exchange) (batchRequest, error) {
	defer x.log.Leave(x.log.Enter(timing.Decode))
	q := address.ParseQuery(x.r.URL.RawQuery, address.SamplesNames()...)
	a, err := g.resolve(x, q, address.DecodeSamples(q, x.dataset.Address, chi.URLParam(x.r, "epoch")))
	if err != nil {
		return a, err
	}
	return a, a.CheckEnd()
}

// resolve completes the decoding of an address: it reports the faults of the query and completes
// the plan.
func (g *Gateway) resolve(x *exchange, q *address.Query, b address.Batch) (batchRequest, error) {
	d := x.dataset
	if err := d.Address.Check(q); err != nil {
		return batchRequest{}, err
	}
	if err := g.plans.Complete(x.r.Context(), d.Dataset, &b.Plan); err != nil {
		return batchRequest{}, err
	}
	x.log.batch, x.log.hasEpoch = b, true
	return batchRequest{d, b}, nil
}

// checkFields rejects fields that no sample has.
func (x *exchange) checkFields(d *dataset, v address.View) error {
	if v.Fields == nil {
		return nil
	}
	defer x.log.Leave(x.log.Enter(timing.Decode))
	return d.CheckFields(x.r.Context(), v)
}

// accept returns the lines of the Accept header, joined.
func (x *exchange) accept() string { return strings.Join(x.r.Header.Values("Accept"), ",") }

// send sends a body, or the part that Range selects. It reads all segments before it writes the
// first byte.
func (g *Gateway) send(x *exchange, d *dataset, answer body.Answer, at shuffle.Cursor, b *body.Body) error {
	h := x.w.Header()
	h.Set("Content-Type", answer.ContentType())
	h.Set("Millrace-Crc32c", fmt.Sprintf("%08x", b.CRC))
	span, status, err := x.part(answer.ETag, b.Size, answer.View.Form.Name)
	if err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		h.Set("Server-Timing", x.log.ServerTiming())
		x.w.WriteHeader(status)
		return nil
	}
	if err := b.CheckFits(g.cfg.Budget.Total()); err != nil {
		return err
	}
	part := b.Part(span)
	read, err := g.read(x.r.Context(), x, d, at, b, part)
	if err != nil {
		return err
	}
	defer read.Close()
	held := &loadedPart{part: part, read: read}
	if status == http.StatusOK && g.lend(x, d, answer, held) {
		return nil
	}
	h.Set("Server-Timing", x.log.ServerTiming())
	x.w.WriteHeader(status)
	if x.w.Send(part.Fill(read.Segments), held.settle) != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// loadedPart is a part of a body whose bytes are in memory.
type loadedPart struct {
	part body.Part
	read *batch.Body
}

// settle reduces the memory of the unsent part to a minimum, after sent bytes. It returns the
// remaining bytes.
func (h *loadedPart) settle(sent int64) net.Buffers {
	left := h.part.Left(sent, h.read.Segments)
	h.read.Settle()
	return left.Fill(h.read.Segments)
}

// arrival returns the arrival time of the batch that is currently being read.
func (x *exchange) arrival() arrival.Arrival {
	if x.w.Wrote {
		return arrival.Arrival{Ahead: true}
	}
	return arrival.Arrival{At: x.start}
}

// readFrom calls source.Read and records its phase and span.
func (x *exchange) readFrom(ctx context.Context, source Source, at shuffle.Cursor, needed []batch.ChunkRanges) (*batch.Body, error) {
	defer x.log.Leave(x.log.Enter(timing.Read))
	ctx, span := tracing.Start(arrival.With(ctx, x.arrival()), timing.Read.String())
	read, err := source.Read(ctx, at, needed)
	if err == nil && span.Recorded() {
		for _, t := range read.Tiers {
			span.Number("millrace."+t.Tier+".bytes", t.Bytes)
			span.Number("millrace."+t.Tier+".microseconds", t.Wait.Microseconds())
		}
	}
	span.Ended(err)
	return read, err
}

// read reads the samples of a part of a body and checks their bytes.
func (g *Gateway) read(
	ctx context.Context, x *exchange, d *dataset, at shuffle.Cursor, b *body.Body, part body.Part,
) (*batch.Body, error) {
	if read := b.Take(); read != nil {
		return read, nil
	}
	needed, n := part.Needed()
	if n == 0 {
		return batch.NewBody(nil, nil, nil), nil
	}
	release, ok := x.account.Hold(part.Size())
	// ErrOverloaded makes a long response retry the next batch after the previous one has freed
	// its memory.
	if !ok {
		p := tooMany(time.Second, "open responses to these credentials already use their share of the memory: request fewer batches at a time")
		p.Cause = budget.ErrOverloaded
		return nil, p
	}
	defer func() { release() }() // after an error or a panic
	read, err := x.readFrom(ctx, d.source, at, needed)
	if errors.Is(err, budget.ErrTooLarge) {
		return nil, b.TooLarge(g.cfg.Budget.Total()).Because(err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %d samples: %w", n, err)
	}
	x.log.Came(read.Tiers)
	if err := part.Check(read.Segments); err != nil {
		read.Close()
		return nil, err
	}
	read.OnClose(release)
	release = func() {}
	return read, nil
}
