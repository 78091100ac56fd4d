package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/importance"
)

// Importance keeps the losses that trainers report of a dataset, and the snapshots of weights that they make;
// *importance.Log is one.
type Importance interface {
	Add(ctx context.Context, r importance.Report) (added bool, err error)
	Freeze(ctx context.Context, q importance.FreezeRequest) (importance.Frozen, error)
	Open(ctx context.Context, digest, generation string, first []uint64) (*importance.Snapshot, error)
}

// Limits of a request with reports.
const (
	maxReports      = 16 << 20 // bytes
	reportTimes     = 8        // what a report takes in memory, to its bytes
	reportsAtOnce   = 16       // batches whose reports are stored at a time
	maxFaultsListed = 32
)

// lossReport is the losses of one rank's share of a global batch.
type lossReport struct {
	URL       string    `json:"url"`       // of the batch, as its Content-Location says it
	Losses    []float64 `json:"losses"`    // in the order of the share
	Positions []uint64  `json:"positions"` // that the losses are of, where they are not the whole share
}

// findWeighed returns the dataset that a request posts something of its importance to, if it can be taken.
func (g *Gateway) findWeighed(x *exchange) (*dataset, error) {
	d, err := g.findDataset(x)
	if err != nil {
		return nil, err
	}
	if err := noQuery(x); err != nil {
		return nil, err
	}
	if d.Importance == nil {
		return nil, errNoImportance()
	}
	return d, g.refuseDraining(x)
}

// postReports takes the losses of one batch, or of many.
func (g *Gateway) postReports(x *exchange) error {
	d, err := g.findWeighed(x)
	if err != nil {
		return err
	}
	body, release, err := g.body(x, maxReports, reportTimes)
	if err != nil {
		return err
	}
	defer release()
	var sent struct {
		lossReport
		Batches []lossReport `json:"batches"`
	}
	if err := decodeJSON(body, &sent); err != nil {
		return err
	}
	single := sent.URL != "" || sent.Losses != nil || sent.Positions != nil
	if single == (sent.Batches != nil) || !single && len(sent.Batches) == 0 {
		return invalid("the body wants either url and losses, or batches: a list of them, not empty")
	}
	if single {
		sent.Batches = []lossReport{sent.lossReport}
	}
	reports, err := g.decodeReports(x.r.Context(), d, sent.Batches, single)
	if err != nil {
		return err
	}
	accepted, err := d.addReports(x.r.Context(), reports)
	if err != nil {
		return importanceProblem(d, err)
	}
	return sendJSON(x, map[string]int{"accepted": accepted})
}

// decodeReports resolves every report, and names all their faults together.
func (g *Gateway) decodeReports(ctx context.Context, d *dataset, sent []lossReport, single bool) ([]importance.Report, error) {
	reports := make([]importance.Report, 0, len(sent))
	all := &query{}
	var first error // of those that no parameter is to blame for
	for i, s := range sent {
		q := &query{}
		r, err := g.decodeReport(ctx, d, s, q)
		if first == nil && err != nil {
			first = fmt.Errorf("batches[%d]: %w", i, err)
		}
		for _, f := range q.faults {
			if !single {
				f.Name = fmt.Sprintf("batches[%d].%s", i, f.Name)
			}
			all.faults = append(all.faults, f)
		}
		if len(all.faults) > maxFaultsListed {
			all.faults = append(all.faults[:maxFaultsListed], fault{"batches", "and more"})
			break
		}
		reports = append(reports, r)
	}
	if err := all.err(); err != nil {
		return nil, err
	}
	return reports, first
}

// decodeReport resolves one report. What is wrong with it goes to q; an error is what no sender could have known.
func (g *Gateway) decodeReport(ctx context.Context, d *dataset, s lossReport, q *query) (importance.Report, error) {
	if len(s.Losses) == 0 {
		q.fail("losses", "missing")
	}
	b, hasBatch, err := g.decodeURL(d, s.URL, q)
	if err != nil || len(q.faults) > 0 {
		return importance.Report{}, err
	}
	if !hasBatch {
		q.fail("url", "must be that of a batch")
		return importance.Report{}, nil
	}
	if err := b.checkEnd(); err != nil {
		return importance.Report{}, err
	}
	if err := g.checkSplit(ctx, b.planRequest); err != nil {
		return importance.Report{}, err
	}
	share, all := b.share()
	if err := checkShare(all); err != nil {
		return importance.Report{}, err
	}
	global := b.batching().Share(b.batch, 0, 1)
	r := importance.Report{
		Plan: b.identity(), Epoch: b.epoch, Batch: b.batch, First: global.First, Count: global.Count, Positions: s.Positions, Losses: s.Losses,
	}
	if s.Positions == nil {
		if uint64(len(s.Losses)) != share.Count {
			q.fail("losses", "%d of them for the %d samples of this rank's share", len(s.Losses), share.Count)
			return r, nil
		}
		if r.Positions, err = g.positions(ctx, b); err != nil {
			return r, err
		}
	}
	if err := r.Check(); err != nil {
		q.fail("losses", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return r, nil
}

// positions returns those of a rank's share, in order.
func (g *Gateway) positions(ctx context.Context, b batchRequest) ([]uint64, error) {
	share, all := b.share()
	out := make([]uint64, share.Count)
	if !b.scattered() {
		for i := range out {
			out[i] = share.First + uint64(i)
		}
		return out, nil
	}
	release, err := g.reserve(ctx, b.planningBytes(share, all))
	if err != nil {
		return nil, err
	}
	defer release()
	r, err := g.reading(ctx, b)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	l, err := g.locateShare(ctx, b, r, all)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = l.position(i)
	}
	g.recycle(l)
	return out, nil
}

// addReports stores reports, those of one global batch one after another: so each is held against those before it. It returns
// of how many positions losses were taken.
func (d *dataset) addReports(ctx context.Context, reports []importance.Report) (int, error) {
	type globalBatch struct {
		plan         string
		epoch, batch uint64
	}
	byBatch := map[globalBatch][]importance.Report{}
	accepted := 0
	for _, r := range reports {
		key := globalBatch{r.Plan, r.Epoch, r.Batch}
		byBatch[key] = append(byBatch[key], r)
		accepted += len(r.Positions)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reportsAtOnce)
	for _, batch := range byBatch {
		group.Go(func() error {
			for _, r := range batch {
				if _, err := d.Importance.Add(ctx, r); err != nil {
					return fmt.Errorf("batch %d of epoch %d: %w", r.Batch, r.Epoch, err)
				}
			}
			return nil
		})
	}
	return accepted, group.Wait()
}

// decodeURL reads the address of a batch or an epoch of a dataset, as Content-Location and the links of a plan give it: whole,
// or from the path on. It must name the generation, so that losses never belong to other data.
func (g *Gateway) decodeURL(d *dataset, address string, q *query) (b batchRequest, hasBatch bool, err error) {
	if address == "" {
		q.fail("url", "missing")
		return b, false, nil
	}
	if _, rest, whole := strings.Cut(address, "://"); whole {
		_, rest, _ = strings.Cut(rest, "/")
		address = "/" + rest
	}
	path, raw, _ := strings.Cut(address, "?")
	parts := strings.Split(strings.TrimSuffix(path, "/manifest"), "/")
	name, epoch, batch := "", "", ""
	switch {
	case len(parts) == 5 && parts[1] == "epoch" && parts[3] == "batch":
		name, epoch, batch, hasBatch = g.datasets[0].Name, parts[2], parts[4], true
	case len(parts) == 8 && parts[6] == "batches":
		batch, hasBatch = parts[7], true
		fallthrough
	case len(parts) == 6:
		if parts[1] == "v1" && parts[2] == "datasets" && parts[4] == "epochs" {
			name, epoch = parts[3], parts[5]
		}
	}
	if name != d.Name {
		q.fail("url", "must be that of an epoch or a batch of dataset %s", d.Name)
		return b, false, nil
	}
	in := parseQuery(raw, batchNames()...)
	b = batchRequest{planRequest: decodePlan(in, d)}
	b.epoch = in.decimal("epoch", epoch, 0, ^uint64(0))
	if hasBatch {
		b.batch = in.decimal("batch", batch, 0, ^uint64(0))
	}
	if !in.has("generation") {
		in.fail("generation", "missing: the Content-Location of an answer has it")
	}
	var p *problem
	if err := d.check(in); errors.As(err, &p) && p.Status != http.StatusBadRequest {
		return b, hasBatch, err
	}
	if b.params.Subset != "" || b.quarantine != "" {
		in.fail("url", "names a subset or a quarantine: losses are taken of plans over all samples")
	}
	for _, f := range in.faults {
		q.faults = append(q.faults, fault{"url." + f.Name, f.Reason})
	}
	b.samples = d.Index.Samples()
	return b, hasBatch, nil
}

// identity names the order that a plan gives, whoever reads it and however it is shared out: losses of one identity are
// folded together.
func (p planRequest) identity() string {
	var kept []string
	for part := range strings.SplitSeq(p.canonical(), "&") {
		name, _, _ := strings.Cut(part, "=")
		if !slices.Contains([]string{"balance", "fields", "format", "homes", "rank", "split", "table", "world_size"}, name) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

func errNoImportance() error {
	return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "this gateway keeps no importance of the dataset"}
}

// importanceProblem gives the errors of a dataset's Importance the words that a user may read, where the table of errors does not.
func importanceProblem(d *dataset, err error) error {
	var conflict *importance.ConflictError
	var readOnly *importance.ReadOnlyError
	switch {
	case errors.Is(err, importance.ErrCorrupt): // whatever it is that is wrong in there
		return err
	case errors.As(err, &conflict):
		return &problem{Status: http.StatusConflict, Code: codeConflict, Detail: conflict.Error(), Cause: err}
	case errors.As(err, &readOnly):
		p := &problem{Status: http.StatusForbidden, Code: codeReadOnly, Kept: &readOnly.Kept, Cause: err}
		p.Detail = "the bucket takes no writes: what was reported is lost unless it is sent to a gateway that may write"
		if readOnly.Kept {
			p.Detail = "the bucket takes no writes: what was reported is kept in the local log of this gateway, on its disk"
		}
		return p
	case errors.Is(err, importance.ErrReadOnly):
		return &problem{Status: http.StatusForbidden, Code: codeReadOnly, Detail: "the bucket takes no writes: no snapshot can be stored", Cause: err}
	case errors.Is(err, importance.ErrGeneration):
		p := invalid("%v; the dataset is of generation %.12s", err, d.Index.Generation())
		p.Cause = err
		return p
	case errors.Is(err, importance.ErrInvalid):
		p := invalid("%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		p.Cause = err
		return p
	}
	return err
}
