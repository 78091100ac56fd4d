package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// sendJSON answers with v. An ETag, if there is one, has been compared already.
func sendJSON(x *exchange, v any) error { return sendJSONStatus(x, http.StatusOK, v) }

func sendJSONStatus(x *exchange, status int, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	h := x.w.Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		x.w.mustWrite(body)
	}
	return nil
}

// encodeJSON leaves & and < as they are, unlike json.Marshal, so that links can be read and typed: no answer is HTML.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// sendBytes answers with a body that is in memory.
func sendBytes(x *exchange, contentType string, body []byte) {
	h := x.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method != http.MethodHead {
		x.w.mustWrite(body)
	}
}

// noQuery refuses parameters where none are known.
func noQuery(x *exchange) error { return parseQuery(x.r.URL.RawQuery).err() }

// datasetLinks are the addresses that belong to a dataset.
type datasetLinks struct {
	Self  string `json:"self"`
	Epoch string `json:"epoch"`
	Batch string `json:"batch"`
	Index string `json:"index"`
}

// datasetInfo describes a dataset.
type datasetInfo struct {
	Name        string              `json:"name"`
	Default     bool                `json:"default"`
	Generation  string              `json:"generation"`
	Format      string              `json:"format"`
	ContentType string              `json:"content_type"`
	Forms       []formInfo          `json:"forms"`
	Constants   json.RawMessage     `json:"constants,omitempty"`
	Samples     uint64              `json:"samples"`
	Chunks      int                 `json:"chunks"`
	Shards      int                 `json:"shards"`
	Bytes       int64               `json:"bytes"`
	MaxChunk    int64               `json:"max_chunk"`
	MaxSample   int64               `json:"max_sample"`
	Plan        chunkindex.Defaults `json:"default_plan"`
	Sources     []sourceInfo        `json:"sources,omitempty"` // of a mixture
	Links       datasetLinks        `json:"links"`
}

// formInfo is a form that batches may have.
type formInfo struct {
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Fields      bool   `json:"fields"`
}

func (g *Gateway) info(d *dataset) datasetInfo {
	x, self := d.Index, "/v1/datasets/"+d.Name
	forms := make([]formInfo, len(d.forms))
	for i, f := range d.forms {
		forms[i] = formInfo{f.name, f.contentType, f.fields}
	}
	return datasetInfo{
		Name: d.Name, Default: d == g.datasets[0], Generation: x.Generation(), Format: x.Format(),
		ContentType: d.forms[0].contentType, Forms: forms, Constants: x.Constants(), Samples: x.Samples(), Chunks: x.Chunks(), Shards: x.Shards(),
		Bytes: x.Bytes(), MaxChunk: x.MaxChunk(), MaxSample: x.MaxSample(), Plan: x.Defaults(), Sources: d.mixture.info(),
		Links: datasetLinks{Self: self, Epoch: self + "/epochs/0", Batch: self + "/epochs/0/batches/0", Index: self + "/index"},
	}
}

func (g *Gateway) getDatasets(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	list := struct {
		Datasets []datasetInfo `json:"datasets"`
	}{make([]datasetInfo, len(g.datasets))}
	for i, d := range g.datasets {
		list.Datasets[i] = g.info(d)
	}
	return sendJSON(x, list)
}

func (g *Gateway) getDataset(x *exchange) error {
	d, err := g.findDataset(x)
	if err != nil {
		return err
	}
	if err := noQuery(x); err != nil {
		return err
	}
	return sendJSON(x, g.info(d))
}

// planInfo is a plan with every parameter written out.
type planInfo struct {
	BatchSize  uint64 `json:"batch_size"`
	Seed       uint64 `json:"seed,string"`
	Shuffle    string `json:"shuffle"`
	Window     uint64 `json:"window,omitempty"`
	Strata     uint64 `json:"strata,omitempty"`
	Tail       string `json:"tail"`
	Rank       uint64 `json:"rank"`
	WorldSize  uint64 `json:"world_size"`
	Balance    string `json:"balance,omitempty"`
	Split      string `json:"split,omitempty"`
	Homes      uint64 `json:"homes,omitempty"`
	Importance string `json:"importance,omitempty"`
	Subset     string `json:"subset,omitempty"`
	Quarantine string `json:"quarantine,omitempty"`
	Mixture    bool   `json:"mixture,omitempty"`
	Generation string `json:"generation"`
	Format     string `json:"format"`
	Fields     string `json:"fields,omitempty"`
	Table      string `json:"table,omitempty"`
}

func (p planRequest) info() planInfo {
	info := planInfo{
		BatchSize: p.batchSize, Seed: p.params.Seed, Shuffle: p.params.Shuffle, Window: p.params.Window, Tail: string(p.tail),
		Rank: p.rank, WorldSize: p.worldSize, Generation: p.dataset.Index.Generation(), Format: p.view.form.name,
	}
	info.Fields, info.Table = p.view.fieldsParameter(), p.view.tableParameter()
	info.Mixture = p.dataset.mixture != nil
	info.Subset, info.Quarantine = p.params.Subset, p.quarantine
	info.Importance, info.Strata, info.Split = p.params.Importance, p.params.Strata, string(p.split)
	if p.balance != balanceSamples {
		info.Balance = p.balance
	}
	if p.homes != p.worldSize {
		info.Homes = p.homes
	}
	return info
}

// epochInfo describes an epoch under a plan, so that a user chooses it with open eyes.
type epochInfo struct {
	Dataset       string       `json:"dataset"`
	Epoch         uint64       `json:"epoch"`
	Parameters    planInfo     `json:"parameters"`
	OrderVersion  int          `json:"order_version"`
	OrderDigest   string       `json:"order_digest"`
	Batches       uint64       `json:"batches"`
	Samples       uint64       `json:"samples"`
	Bytes         *int64       `json:"bytes,omitempty"` // left out with a subset, a quarantine or a mixture: nobody has summed them
	Reads         uint64       `json:"chunk_reads"`
	*varianceInfo              // left out of a mixture, whose batches nobody has reckoned, and where no batch has two samples
	Memory        uint64       `json:"window_memory"`
	Moved         *float64     `json:"moved,omitempty"` // with split=locality: the share of samples that ranks take from other homes
	*weighedInfo               // with importance
	Sources       []sourceInfo `json:"sources,omitempty"` // of a mixture
	Links         epochLinks   `json:"links"`
}

// varianceInfo is how much the number of a class's samples varies between batches of sorted data, relative to independent draws.
type varianceInfo struct {
	Chunk   float64 `json:"expected_batch_variance"` // each chunk is a class
	Ten     float64 `json:"expected_batch_variance_10"`
	Hundred float64 `json:"expected_batch_variance_100"`
}

func newVarianceInfo(plan *shuffle.Plan, batchSize uint64) *varianceInfo {
	v, ok := plan.BatchVariance(batchSize)
	if !ok {
		return nil
	}
	digits := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	return &varianceInfo{Chunk: digits(v.Chunk), Ten: digits(v.Ten), Hundred: digits(v.Hundred)}
}

type epochLinks struct {
	Self  string `json:"self"`
	Batch string `json:"batch,omitempty"`
}

func (g *Gateway) getEpoch(x *exchange) error {
	p, epoch, err := g.decodeEpoch(x)
	if err != nil {
		return err
	}
	if err := g.acceptSplit(x, p); err != nil {
		return err
	}
	h := x.w.Header()
	etag := batchRequest{planRequest: p, epoch: epoch}.describingETag("epoch " + p.dataset.Name)
	h.Set("ETag", etag)
	h.Set("Cache-Control", describingControl(p.pinned))
	h.Set("Content-Location", p.epochURL(epoch))
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	if err := g.refuseDraining(x); err != nil {
		return err
	}
	release, err := g.await(x, lengthBytes*int64(p.dataset.Index.Chunks())+p.movedBytes())
	if err != nil {
		return err
	}
	defer release()
	start := time.Now()
	info, err := g.epochInfo(x.r.Context(), p, epoch)
	x.log.spent(phasePlan, start)
	if err != nil {
		return err
	}
	return sendJSON(x, info)
}

// lengthBytes is what epochInfo holds of a chunk.
const lengthBytes = 8

// movedBytes is what it takes to learn what share moves: an epoch, and the homes of 2^18 samples of it.
func (p planRequest) movedBytes() int64 {
	if !p.follows() {
		return 0
	}
	return p.dataset.epochBytes(p.params) + 2<<20
}

func (g *Gateway) epochInfo(ctx context.Context, p planRequest, epoch uint64) (epochInfo, error) {
	x := p.dataset.Index
	info := epochInfo{
		Dataset: p.dataset.Name, Epoch: epoch, OrderVersion: shuffle.OrderVersion, Parameters: p.info(),
		Batches: p.batching().Batches(), Samples: p.samples, Links: epochLinks{Self: p.epochURL(epoch)},
	}
	if info.Batches > 0 {
		info.Links.Batch = batchRequest{planRequest: p, epoch: epoch}.url(batchBody, 0)
	}
	if p.dataset.mixture != nil {
		err := g.mixedInfo(ctx, p, &info)
		return info, err
	}
	c, leaveChoice, err := g.choose(ctx, p)
	if err != nil {
		return epochInfo{}, err
	}
	defer leaveChoice()
	plan, leave, err := g.plans.plan(ctx, p.dataset, p.params, c)
	if err != nil {
		return epochInfo{}, err
	}
	defer leave()
	if err := p.refuseSplit(plan); err != nil {
		return epochInfo{}, err
	}
	info.OrderDigest, info.Reads = c.orderDigest(plan), plan.Reads()
	if p.params.Subset == "" && p.quarantine == "" {
		bytes := x.Bytes()
		info.Bytes = &bytes
	}
	if c.weights != nil {
		drawn := c.weights.info()
		info.weighedInfo = &drawn
	}
	lengths := make([]uint64, x.Chunks())
	for i := range lengths {
		lengths[i] = uint64(x.Chunk(i).Length)
	}
	if p.split != shuffle.Contiguous {
		moved := plan.Moved(p.batching(), p.worldSize, p.homes)
		info.Moved = &moved
	}
	info.Memory = shuffle.Memory(p.params, lengths)
	info.varianceInfo = newVarianceInfo(plan, p.batchSize)
	return info, nil
}
