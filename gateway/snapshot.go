package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/importance"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// snapshotInfo describes a snapshot of weights.
type snapshotInfo struct {
	Snapshot   string `json:"snapshot"` // its name: the value of the parameter importance
	Dataset    string `json:"dataset"`
	Generation string `json:"generation"`
	Plan       string `json:"plan"`           // that losses were reported of
	Epoch      uint64 `json:"epoch"`          // of that plan
	Base       string `json:"base,omitempty"` // snapshot that what was not reported has its weights of
	Samples    uint64 `json:"samples"`
	Reported   uint64 `json:"reported"` // positions with a loss
	Repeat     uint32 `json:"repeat"`   // how often the weight of a hot sample counts
	weighedInfo
}

// weighedInfo says what weights mean for an epoch that draws by them.
type weighedInfo struct {
	Coverage   float64 `json:"coverage"`              // expected share of the samples that an epoch delivers
	Effective  float64 `json:"effective_sample_size"` // in samples
	HotSamples uint64  `json:"hot_samples"`
	HotShare   float64 `json:"hot_share"` // of all samples
}

func (w *weights) info() weighedInfo {
	return weighedInfo{Coverage: w.Coverage(), Effective: w.EffectiveSampleSize(), HotSamples: w.HotSamples(), HotShare: w.HotShare()}
}

func (w *weights) describe(d *dataset) snapshotInfo {
	return snapshotInfo{
		Snapshot: w.Digest(), Dataset: d.Name, Generation: w.Generation(), Plan: w.Plan(), Epoch: w.Epoch(), Base: w.Base(),
		Samples: w.Samples(), Reported: w.Positions(), Repeat: w.Repeat(), weighedInfo: w.info(),
	}
}

// getSnapshot describes a snapshot.
func (g *Gateway) getSnapshot(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	q := parseQuery(x.r.URL.RawQuery)
	name := chi.URLParam(x.r, "snapshot")
	if !isDigest(name) {
		q.fail("snapshot", "must be 64 hexadecimal digits in lower case")
	}
	if err := q.err(); err != nil {
		return err
	}
	if d.Importance == nil {
		return errNoImportance()
	}
	w, leave, err := g.weights.acquire(x.r.Context(), snapshotKey{dataset: d, name: name})
	if err != nil {
		return err
	}
	defer leave()
	etag := fmt.Sprintf(`"%s-%d"`, name, descriptionVersion)
	x.w.Header().Set("ETag", etag)
	x.w.Header().Set("Cache-Control", describingControl(true))
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	return sendJSON(x, w.describe(d))
}

// postSnapshot freezes the losses that were reported of an epoch. The same losses make the same snapshot, so it may be asked for
// again, and of any gateway.
func (g *Gateway) postSnapshot(x *exchange) error {
	d, err := g.findWeighed(x)
	if err != nil {
		return err
	}
	b, want, err := g.decodeFreeze(x, d)
	if err != nil {
		return err
	}
	release, err := g.reserve(x.r.Context(), d.freezeBytes())
	if errors.Is(err, budget.ErrTooLarge) {
		return g.tooMuchToFreeze(d, err)
	}
	if err != nil {
		return err
	}
	defer release()
	frozen, err := g.freeze(x.r.Context(), b, want)
	if err != nil {
		return importanceProblem(d, err)
	}
	w, leave, err := g.weights.acquire(x.r.Context(), snapshotKey{dataset: d, name: frozen.Digest})
	if err != nil {
		return err
	}
	defer leave()
	h := x.w.Header()
	h.Set("Location", "/v1/datasets/"+d.Name+"/importance/"+frozen.Digest)
	h.Set("Cache-Control", "no-store")
	status := http.StatusOK
	if frozen.New {
		status = http.StatusCreated
	}
	return sendJSONStatus(x, status, w.describe(d))
}

// freezeWish is what a trainer may choose of a snapshot.
type freezeWish struct {
	URL      string   `json:"url"` // of the epoch, or of a batch of it
	HotShare *float64 `json:"hot_share"`
	Repeat   *uint32  `json:"repeat"`
}

func (g *Gateway) decodeFreeze(x *exchange, d *dataset) (b batchRequest, want freezeWish, err error) {
	body, release, err := g.body(x, maxBody, 1)
	if err != nil {
		return b, want, err
	}
	defer release()
	if err := decodeJSON(body, &want); err != nil {
		return b, want, err
	}
	q := &query{}
	b, _, err = g.decodeURL(d, want.URL, q)
	if err != nil {
		return b, want, err
	}
	if s := want.HotShare; s != nil && !(*s > 0 && *s <= 1) {
		q.fail("hot_share", "must be above 0 and at most 1; with repeat 1 no sample is preferred")
	}
	if n := want.Repeat; n != nil && *n == 0 {
		q.fail("repeat", "must be at least 1")
	}
	return b, want, q.err()
}

// freezeBytes is what it takes to freeze the weights of a dataset: a weight for each sample, its chunks, and what is read of reports
// at a time.
func (d *dataset) freezeBytes() int64 {
	const reports, perSample = 64 << 20, 64
	samples := int64(d.Index.Samples())
	return 4*samples + 16*int64(d.Index.Chunks()) + min(reports, perSample*samples)
}

func (g *Gateway) tooMuchToFreeze(d *dataset, cause error) *problem {
	sum, total := uint64(d.freezeBytes()), g.cfg.Budget.Total()
	return &problem{
		Status: http.StatusBadRequest, Code: codeBatchTooLarge, Bytes: &sum, Limit: &total, Cause: cause,
		Detail: fmt.Sprintf("to freeze the weights of %d samples takes %d bytes; the memory budget is %d bytes", d.Index.Samples(), sum, total),
	}
}

func (g *Gateway) freeze(ctx context.Context, b batchRequest, want freezeWish) (importance.Frozen, error) {
	r, err := g.reading(ctx, b)
	if err != nil {
		return importance.Frozen{}, err
	}
	defer r.leave()
	d := b.dataset
	q := importance.FreezeRequest{
		Plan: b.identity(), Epoch: b.epoch, Generation: d.Index.Generation(), BatchSize: b.batchSize, First: d.Index.First(),
		Resolve: func(ctx context.Context, positions []uint64) ([]uint64, error) { return r.samplesAt(ctx, d, positions) },
	}
	if r.weights != nil {
		q.Base = r.weights.Snapshot
	}
	if want.HotShare != nil {
		q.HotShare = *want.HotShare
	}
	if want.Repeat != nil {
		q.Repeat = *want.Repeat
	}
	return d.Importance.Freeze(ctx, q)
}

// samplesAt returns the samples at ascending positions, those that pad the last batch included.
func (r reading) samplesAt(ctx context.Context, d *dataset, positions []uint64) ([]uint64, error) {
	samples := d.Index.Samples()
	out := make([]uint64, 0, len(positions))
	for len(positions) > 0 { // run by run
		lo, n := positions[0]%samples, uint64(1)
		for n < uint64(len(positions)) && positions[n] == positions[0]+n && lo+n < samples {
			n++
		}
		out = r.Epoch.Append(out, lo, lo+n)
		positions = positions[n:]
	}
	_, err := r.resolve(ctx, d.Index.First(), r.Plan, r.Epoch, out)
	return out, err
}

// mostDraws bounds how often an epoch draws a sample: within one of its expectation.
func (w *weights) mostDraws(s *drawn) uint64 {
	var total uint64
	for _, t := range w.Totals() {
		total += t
	}
	hi, lo := bits.Mul64(uint64(s.weights[s.place]), w.Samples())
	n, _ := bits.Div64(hi, lo, total) // of which the weight is a part
	return n + 1
}

// drawn is a sample that epochs draw by weight, as often as it happens.
type drawn struct {
	chunk   int
	weights []uint32 // of the chunk's samples
	place   uint64   // of the sample among them
}

func (w *weights) find(ctx context.Context, d *dataset, sample uint64) (*drawn, error) {
	chunk := d.Index.ChunkOf(sample)
	all, err := w.Weights(ctx, chunk)
	if err != nil {
		return nil, fmt.Errorf("weights of chunk %d: %w", chunk, err)
	}
	return &drawn{chunk, all, sample - d.Index.First()[chunk]}, nil
}

// positions returns the positions of an epoch's order at which the sample comes.
func (s *drawn) positions(e *shuffle.Epoch) []uint64 {
	lo, hi := e.Draws().Of(s.chunk, s.weights, s.place)
	var out []uint64
	for v := lo; v < hi; v++ {
		out = append(out, e.Position(v))
	}
	return out
}
