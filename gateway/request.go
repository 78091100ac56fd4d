package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/shuffle"
)

// Bounds of parameters that are multiplied with each other: far above any use, far below overflow.
const (
	maxBatchSize = 1 << 31
	maxWorldSize = 1 << 31
	maxWindow    = 1 << 31
	maxStrata    = 1 << 16
)

// planNames are the parameters that fix the batches, batchNames those of a batch and of an epoch.
func planNames() []string {
	return []string{"batch_size", "seed", "shuffle", "window", "strata", "tail", "importance", "subset", "quarantine", "generation"}
}

func batchNames() []string {
	return append(planNames(), "rank", "world_size", "balance", "split", "homes", "format", "fields", "table")
}

// planRequest is a resolved plan: every parameter has its value, from the URL or from the dataset's defaults.
type planRequest struct {
	dataset    *dataset
	params     shuffle.Params
	quarantine string // digest of a list of bad samples; "": none
	samples    uint64 // of an epoch, once the plan is complete
	batchSize  uint64
	tail       shuffle.Tail
	rank       uint64
	worldSize  uint64
	balance    string
	split      shuffle.Split
	homes      uint64 // of locality: as many as groups of ranks
	view       view
	pinned     bool // the URL names the generation, and the split of a subset by its digest
}

// batchRequest is the address of one batch.
type batchRequest struct {
	planRequest
	epoch, batch uint64
}

// findDataset returns the dataset that the path names; the short path means the default one.
func (g *Gateway) findDataset(x *exchange) (*dataset, error) {
	name := chi.URLParam(x.r, "dataset")
	if name == "" {
		x.log.dataset = g.datasets[0].Name
		return g.datasets[0], nil
	}
	d, ok := g.byName[name]
	if !ok {
		return nil, &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: fmt.Sprintf("no dataset %.100q is served: GET /v1/datasets lists those that are", name)}
	}
	x.log.dataset = d.Name
	return d, nil
}

// decodePlan resolves the parameters that the query gives against the dataset's defaults.
func decodePlan(q *query, d *dataset) planRequest {
	def := d.Index.Defaults()
	p := planRequest{dataset: d}
	p.batchSize = q.number("batch_size", def.BatchSize, 1, maxBatchSize)
	p.params.Seed = q.number("seed", def.Seed, 0, math.MaxUint64)
	p.params.Shuffle = q.word("shuffle", def.Shuffle, shuffle.None, shuffle.Window, shuffle.Slot, shuffle.Full)
	p.tail = shuffle.Tail(q.word("tail", def.Tail, string(shuffle.Short), string(shuffle.Drop), string(shuffle.Pad)))
	mostWindow := uint64(maxWindow)
	if p.params.Shuffle == shuffle.Slot {
		mostWindow = shuffle.MaxLanes
	}
	window := q.number("window", def.Window, 1, mostWindow)
	if usesWindow(p.params.Shuffle) {
		p.params.Window = window
	} else if q.has("window") {
		q.fail("window", "has no meaning for shuffle %s", p.params.Shuffle)
	}
	p.params.Strata = q.number("strata", 0, 0, maxStrata)
	q.checkStrata(p.params)
	p.params.Importance = q.digest("importance")
	p.worldSize = q.number("world_size", 1, 1, maxWorldSize)
	p.rank = q.number("rank", 0, 0, math.MaxUint64)
	if p.rank >= p.worldSize {
		q.fail("rank", "must be below world_size")
	}
	p.balance = q.word("balance", balanceSamples, balanceSamples, balanceBytes)
	if q.word("split", splitContiguous, splitContiguous, string(shuffle.Locality)) != splitContiguous {
		p.split = shuffle.Locality
	}
	p.homes = q.number("homes", p.worldSize, 1, maxHomes)
	q.checkSplit(p)
	p.decodeSelection(q)
	p.view = decodeView(q, d)
	p.pinned = q.has("generation") && (p.params.Subset == "" || strings.Contains(p.params.Subset, ":"))
	return p
}

// usesWindow says whether a window is part of the plan: none and full have none.
func usesWindow(name string) bool { return name == shuffle.Window || name == shuffle.Slot }

func isDigest(s string) bool {
	if len(s) != 2*sha256.Size || strings.ToLower(s) != s {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}

// check ends the decoding of a query: one answer for all of its faults, or for a generation that is not the one served.
func (d *dataset) check(q *query) error {
	s := q.values["generation"]
	other := s != "" && s != d.Index.Generation()
	if other && !isDigest(s) {
		q.fail("generation", "must be 64 hexadecimal digits in lower case")
	}
	if err := q.err(); err != nil {
		return err
	}
	if other {
		return &problem{
			Status: http.StatusNotFound, Code: codeNotFound,
			Detail: fmt.Sprintf("generation %s of dataset %s is not served: the one that is, is %s", s, d.Name, d.Index.Generation()),
		}
	}
	return nil
}

// decodeEpoch reads the address of an epoch.
func (g *Gateway) decodeEpoch(x *exchange) (planRequest, uint64, error) {
	defer x.log.spent(phaseResolve, time.Now())
	d, err := g.findDataset(x)
	if err != nil {
		return planRequest{}, 0, err
	}
	q := parseQuery(x.r.URL.RawQuery, batchNames()...)
	p := decodePlan(q, d)
	epoch := q.decimal("epoch", chi.URLParam(x.r, "epoch"), 0, math.MaxUint64)
	if err := d.check(q); err != nil {
		return planRequest{}, 0, err
	}
	if err := g.complete(x.r.Context(), &p); err != nil {
		return planRequest{}, 0, err
	}
	x.log.setPlan(p, epoch)
	return p, epoch, nil
}

// decodeBatch reads the address of a batch, and refuses one past the end of its epoch.
func (g *Gateway) decodeBatch(x *exchange) (batchRequest, error) {
	defer x.log.spent(phaseResolve, time.Now())
	d, err := g.findDataset(x)
	if err != nil {
		return batchRequest{}, err
	}
	q := parseQuery(x.r.URL.RawQuery, batchNames()...)
	b := batchRequest{planRequest: decodePlan(q, d)}
	b.epoch = q.decimal("epoch", chi.URLParam(x.r, "epoch"), 0, math.MaxUint64)
	b.batch = q.decimal("batch", chi.URLParam(x.r, "batch"), 0, math.MaxUint64)
	if err := d.check(q); err != nil {
		return batchRequest{}, err
	}
	if err := g.complete(x.r.Context(), &b.planRequest); err != nil {
		return batchRequest{}, err
	}
	x.log.setPlan(b.planRequest, b.epoch)
	x.log.batch, x.log.hasBatch = b.batch, true
	return b, b.checkEnd()
}

// checkEnd refuses a batch past the end of its epoch.
func (b batchRequest) checkEnd() error {
	n := b.batching().Batches()
	if b.batch < n {
		return nil
	}
	return &problem{
		Status: http.StatusNotFound, Code: codeEndOfEpoch, Batches: &n,
		Detail: fmt.Sprintf("the epoch has %d batches, numbered from 0", n),
	}
}

func (p planRequest) batching() shuffle.Batching {
	return shuffle.Batching{Samples: p.samples, BatchSize: p.batchSize, Tail: p.tail}
}

// canonical is the query string with every parameter written out, names in byte order. A
// parameter that has no meaning for the shuffle is left out, and so is one that was added since the first release at the
// value that changes nothing: what was an address stays one.
func (p planRequest) canonical() string {
	b := make([]byte, 0, 256)
	add := func(name, value string) {
		if len(b) > 0 {
			b = append(b, '&')
		}
		b = append(b, name...)
		b = append(b, '=')
		b = append(b, value...)
	}
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	if p.balance == balanceBytes {
		add("balance", p.balance)
	}
	add("batch_size", num(p.batchSize))
	if p.view.fields != nil {
		add("fields", p.view.fieldsParameter())
	}
	add("format", p.view.form.name)
	add("generation", p.dataset.Index.Generation())
	if p.homes != p.worldSize {
		add("homes", num(p.homes))
	}
	if p.params.Importance != "" {
		add("importance", p.params.Importance)
	}
	if p.quarantine != "" {
		add("quarantine", p.quarantine)
	}
	add("rank", num(p.rank))
	add("seed", num(p.params.Seed))
	add("shuffle", p.params.Shuffle)
	if p.split != shuffle.Contiguous {
		add("split", string(p.split))
	}
	if p.params.Strata != 0 {
		add("strata", num(p.params.Strata))
	}
	if t := p.view.tableParameter(); t != "" {
		add("table", t)
	}
	if p.params.Subset != "" {
		add("subset", p.params.Subset)
	}
	add("tail", string(p.tail))
	if usesWindow(p.params.Shuffle) {
		add("window", num(p.params.Window))
	}
	add("world_size", num(p.worldSize))
	return string(b)
}

func (p planRequest) epochURL(epoch uint64) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d?%s", p.dataset.Name, epoch, p.canonical())
}

// url is the canonical address of a resource of a batch of this epoch.
func (b batchRequest) url(resource string, batch uint64) string {
	suffix := ""
	if resource == batchManifest {
		suffix = "/manifest"
	}
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d%s?%s", b.dataset.Name, b.epoch, batch, suffix, b.canonical())
}

// etag is a strong ETag that follows from the plan and never from the data.
func (b batchRequest) etag(resource string) string {
	if !b.view.plain() {
		resource = fmt.Sprintf("%s form %d", resource, formVersion)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "millrace %s\norder %d\n%d\n%d\n%s\n", resource, shuffle.OrderVersion, b.epoch, b.batch, b.canonical()))
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
