package gateway

import (
	"fmt"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/plans"
)

// Limits of a request with loss reports.
const (
	maxReports      = 16 << 20 // size of the body in bytes
	reportTimes     = 8        // memory per byte of the body
	maxFaultsListed = 32
	maxReported     = 1024 // batches per request
)

// lossReport has the losses of one rank's share of a global batch.
type lossReport struct {
	URL       string    `json:"url"`       // Content-Location of the batch
	Losses    []float64 `json:"losses"`    // in the order of the share
	Positions []uint64  `json:"positions"` // positions of the losses, if they are not the whole share
}

// checkWeighed rejects requests about losses if the dataset has no importance sampling.
func (g *Gateway) checkWeighed(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	if err := x.dataset.CheckImportance(); err != nil {
		return err
	}
	return g.refuseDraining()
}

// postReports accepts the losses of one batch or of several batches.
func (g *Gateway) postReports(x *exchange) error {
	if err := g.checkWeighed(x); err != nil {
		return err
	}
	body, err := g.body(x, maxReports, reportTimes)
	if err != nil {
		return err
	}
	var sent struct {
		lossReport
		Batches []lossReport `json:"batches"`
	}
	if err := decodeJSON(body, &sent); err != nil {
		return err
	}
	single := sent.URL != "" || sent.Losses != nil || sent.Positions != nil
	if single == (sent.Batches != nil) || !single && len(sent.Batches) == 0 {
		return invalid("the body must have either url and losses, or batches, a non-empty list")
	}
	if single {
		sent.Batches = []lossReport{sent.lossReport}
	}
	if len(sent.Batches) > maxReported {
		return invalid("the body has reports of %d batches, above the limit of %d: send several requests", len(sent.Batches), maxReported)
	}
	if err := g.acquireOf(x, sent.Batches[0].URL); err != nil {
		return err
	}
	d := x.dataset
	reports, err := g.decodeReports(x, d, sent.Batches, single)
	if err != nil {
		return err
	}
	for i := range reports {
		reports[i].Reporter = reporter(x)
	}
	accepted, err := d.AddReports(x.r.Context(), reports)
	if err != nil {
		return err
	}
	return sendJSON(x, map[string]int{"accepted": accepted})
}

// reporter returns the name under which a caller's reports are stored, separately from the reports
// of other callers.
func reporter(x *exchange) string {
	if x.principal.Anonymous() {
		return ""
	}
	return x.principal.Name
}

// decodeReports decodes all reports and returns their faults together.
func (g *Gateway) decodeReports(x *exchange, d *dataset, sent []lossReport, single bool) ([]importance.Report, error) {
	reports := make([]importance.Report, 0, len(sent))
	all := &address.Query{}
	var first error // first error that is not the fault of a parameter
	for i, s := range sent {
		q, prefix := &address.Query{}, ""
		if !single {
			prefix = fmt.Sprintf("batches[%d].", i)
		}
		r, err := g.decodeReport(x, d, s, q)
		if first == nil && err != nil {
			first = fmt.Errorf("batches[%d]: %w", i, err)
		}
		found := q.Faults()
		if room := maxFaultsListed - len(all.Faults()); len(found) > room {
			all.Adopt(prefix, found[:room])
			all.Fail("batches", "and more")
			break
		}
		all.Adopt(prefix, found)
		reports = append(reports, r)
	}
	if err := all.Err(); err != nil {
		return nil, err
	}
	return reports, first
}

// decodeReport decodes one report. It adds faults to q, and returns an error for causes that the
// sender could not know.
func (g *Gateway) decodeReport(x *exchange, d *dataset, s lossReport, q *address.Query) (importance.Report, error) {
	if len(s.Losses) == 0 {
		q.Fail("losses", "missing")
	}
	if of := generationOf(s.URL); of != "" && !d.Address.Names(of) {
		q.Fail("url.generation", "must be the same as in the first batch: all reports of a request must have one generation")
	}
	a, hasBatch, err := g.decodeURL(x, s.URL, q)
	if err != nil || len(q.Faults()) > 0 {
		return importance.Report{}, err
	}
	if !hasBatch {
		q.Fail("url", "must be the URL of a batch")
		return importance.Report{}, nil
	}
	if err := a.CheckEnd(); err != nil {
		return importance.Report{}, err
	}
	_, positions := a.Share()
	if err := body.CheckShare(positions); err != nil {
		return importance.Report{}, err
	}
	global := a.WholeBatch()
	r := importance.Report{
		Plan: a.Identity(), Epoch: a.Epoch, Batch: a.Number, First: global.First, Count: global.Count, Positions: s.Positions, Losses: s.Losses,
	}
	if s.Positions == nil {
		if r.Positions, err = g.positions(x, a); err != nil {
			return r, err
		}
		if len(s.Losses) != len(r.Positions) {
			q.Fail("losses", "got %d losses for the %d samples of this rank's share", len(s.Losses), len(r.Positions))
			return r, nil
		}
	}
	if err := r.Check(); err != nil {
		q.Fail("losses", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return r, nil
}

// positions returns the positions of a rank's share, in order.
func (g *Gateway) positions(x *exchange, a batchRequest) ([]uint64, error) {
	if share, _ := a.Share(); !a.Scattered() {
		return plans.Positions(share), nil
	}
	var held plans.Holds
	defer held.Drop()
	if err := g.await(x, &held, planningBytes(a)); err != nil {
		return nil, err
	}
	_, b, err := g.locate(x.r.Context(), x, &held, a)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, b.Count())
	for i := range out {
		out[i] = b.Position(i)
	}
	return out, nil
}

// decodeURL decodes the URL of a batch or epoch in a body. It adds faults to q.
func (g *Gateway) decodeURL(x *exchange, text string, q *address.Query) (a batchRequest, hasBatch bool, err error) {
	d := x.dataset
	b, hasBatch, err := address.ParseURL(d.Address, d.Name() == g.standard(), text, q)
	if err == nil && len(q.Faults()) == 0 {
		err = g.plans.Complete(x.r.Context(), d.Dataset, &b.Plan)
	}
	return batchRequest{d, b}, hasBatch, err
}
