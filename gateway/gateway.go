package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/selection"
	"github.com/millrace-data/millrace/shuffle"
)

// Source brings the bytes of a batch; datapath.Source is one. It keeps nothing of chunks once it has returned.
type Source interface {
	Read(ctx context.Context, at shuffle.Cursor, chunks []chunkindex.ChunkRanges) (*chunkindex.Body, error)

	// Warm brings what the epoch of a cursor needs from its position First on, in order of need, into the tiers that have
	// room, for about a second. It says where to go on.
	Warm(ctx context.Context, at shuffle.Cursor) (chunkindex.Warmed, error)
}

// Dataset is one dataset that is served.
type Dataset struct {
	Name       string
	Index      Index
	Source     Source
	Importance Importance // nil: no losses are taken, and no plan has weights
	Selection  Selection  // nil: no plan has a subset or a quarantine
}

// Stat is one counter or gauge of the parts below, shown at /metrics and /v1/stats alike.
type Stat struct {
	Name  string // as in Prometheus, without the prefix millrace_: cache_hits_total
	Help  string
	Value float64
}

// Config of a Gateway. The zero value of a field means its default.
type Config struct {
	Datasets []Dataset // the first is the default one
	Mixtures []Mixture // of datasets; served as datasets of their names
	// Mix makes a source of several: its chunks and shards are theirs, numbered on from one to the next. Memory for a batch is taken for all of
	// them together, as of one dataset. It is needed where there are Mixtures.
	Mix     func(sources []Dataset) Source
	Budget  *budget.Budget
	Log     zerolog.Logger
	Version string
	Stats   func() []Stat
	Readers func() []Reader
	Cluster func() any // what /v1/cluster shows, as JSON; nil: the gateway is alone

	AdminListen bool          // metrics, statistics and pprof are served by Admin alone, not on the data port
	Deadline    time.Duration // to the first byte, 60 s; the header Millrace-Deadline-Ms may lower it
	LameDuck    time.Duration // after Drain new batches are served this long, 10 s
	PlanBytes   int64         // prepared epochs kept in memory, 64 MiB but at most 1/64 of Budget; New reserves them there
}

const (
	defaultDeadline  = 60 * time.Second
	defaultLameDuck  = 10 * time.Second
	defaultPlanBytes = 64 << 20
)

// Gateway is the HTTP service.
type Gateway struct {
	cfg      Config
	datasets []*dataset
	byName   map[string]*dataset
	plans    *plans
	weights  *snapshots[*weights]
	subsets  *snapshots[*selection.Subset]

	quarantines *snapshots[quarantine]

	metrics *metrics
	started time.Time
	crc     *crcTables
	scratch sync.Pool    // of *located, for shares of at most maxScratch samples
	spec    []byte       // the OpenAPI document as JSON
	active  atomic.Int64 // requests being answered
	drained atomic.Int64 // nanoseconds after started at which Drain was called; 0: not draining
	handler http.Handler
	admin   http.Handler
}

// dataset is a Dataset with what is derived from it once.
type dataset struct {
	Dataset
	mixture   *mixture               // nil: it is none
	split     atomic.Pointer[string] // digest of the default split, once it is known
	indexETag string
	forms     []*form // the dataset's own first
	names     *partNames
}

// validName bounds dataset names to what a path carries without escapes.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// New checks cfg and builds the routes. It starts nothing.
func New(cfg Config) (*Gateway, error) {
	g := &Gateway{cfg: cfg, byName: map[string]*dataset{}, started: time.Now(), crc: newCRCTables()}
	g.scratch.New = func() any { return &located{slots: map[int32]int32{}} }
	if g.cfg.Deadline <= 0 {
		g.cfg.Deadline = defaultDeadline
	}
	if g.cfg.LameDuck <= 0 {
		g.cfg.LameDuck = defaultLameDuck
	}
	if g.cfg.PlanBytes <= 0 {
		g.cfg.PlanBytes = defaultPlanBytes
	}
	if err := g.addDatasets(cfg.Datasets); err != nil {
		return nil, err
	}
	if err := g.addMixtures(cfg.Mixtures); err != nil {
		return nil, err
	}
	spec, err := openAPI(cfg.Version)
	if err != nil {
		return nil, err
	}
	g.spec = spec
	if err := g.reservePlans(); err != nil {
		return nil, err
	}
	g.plans = newPlans(g.cfg.PlanBytes, g.reserve)
	g.openSnapshots()
	g.metrics = newMetrics(g)
	g.handler = g.routes()
	g.admin = g.adminRoutes()
	return g, nil
}

func (g *Gateway) addDatasets(all []Dataset) error {
	var faults []error
	if len(all) == 0 {
		faults = append(faults, errors.New("no dataset"))
	}
	for _, d := range all {
		switch {
		case !validName.MatchString(d.Name):
			faults = append(faults, fmt.Errorf("dataset name %q: letters, digits, dot, dash and underscore only", d.Name))
		case g.byName[d.Name] != nil:
			faults = append(faults, fmt.Errorf("dataset name %q is given twice", d.Name))
		case d.Index == nil || d.Source == nil:
			faults = append(faults, fmt.Errorf("dataset %q has no index or no source", d.Name))
		default:
			ds := &dataset{Dataset: d, indexETag: indexETag(d.Index), forms: formsOf(d), names: newPartNames(d.Index)}
			g.datasets = append(g.datasets, ds)
			g.byName[d.Name] = ds
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("gateway configuration: %w", err)
	}
	return nil
}

// reservePlans takes the memory of the plans out of the budget, for as long as the budget lives: the next batch must not
// wait for it.
func (g *Gateway) reservePlans() error {
	if g.cfg.Budget == nil {
		return nil
	}
	indexes := make([]Index, 0, len(g.datasets))
	for _, d := range g.datasets {
		indexes = append(indexes, d.Index)
	}
	g.cfg.PlanBytes = planMemory(g.cfg.PlanBytes, g.cfg.Budget.Total(), indexes)
	if _, ok := g.cfg.Budget.TryReserve(g.cfg.PlanBytes); !ok {
		return fmt.Errorf("gateway configuration: the memory budget of %d bytes, %d of them in use, has no room for %d bytes of plans",
			g.cfg.Budget.Total(), g.cfg.Budget.InUse(), g.cfg.PlanBytes)
	}
	return nil
}

// PlanMemory is what New reserves for plans out of a budget of total bytes, without Config.PlanBytes.
func PlanMemory(total int64, indexes []*chunkindex.Index) int64 {
	all := make([]Index, len(indexes))
	for i, x := range indexes {
		all[i] = x
	}
	return planMemory(defaultPlanBytes, total, all)
}

// planMemory always leaves room for one epoch of the largest dataset.
func planMemory(want, total int64, indexes []Index) int64 {
	least := int64(0)
	for _, x := range indexes {
		d := &dataset{Dataset: Dataset{Index: x}}
		params := shuffle.Params{Shuffle: shuffle.Slot}
		least = max(least, d.planBytes(params)+d.epochBytes(params))
	}
	return max(min(want, total/64), least)
}

// What a request holds from its plan to its end, per sample of its share, and what every request may hold unreserved: as
// much as the buffers of its connection.
const (
	// planningBytes: 116 for the sample (number 8, place 32, length 4, range 24, segment 24 twice) and up to 100 for a chunk
	// that only this sample is wanted of.
	planningBytes = 216
	drawingBytes  = 16 // more, to draw it by importance or to deal it
	unreserved    = 64 << 10
)

// reserve takes what a large request needs to be planned; small ones are part of what a connection costs. It comes
// before everything else that the request reserves.
func (g *Gateway) reserve(ctx context.Context, n int64) (release func(), err error) {
	if n <= unreserved {
		return func() {}, nil
	}
	r, err := g.hold(ctx, n)
	if err != nil {
		return nil, err
	}
	return r.Release, nil
}

// await is reserve for a request whose waiting the access line tells.
func (g *Gateway) await(x *exchange, n int64) (release func(), err error) {
	defer x.log.spent(phaseWait, time.Now())
	return g.reserve(x.r.Context(), n)
}

// reservation is memory that is on the books; *budget.Reservation is one.
type reservation interface {
	Shrink(n int64)
	Release()
}

// unbounded is memory of a gateway that has no budget.
type unbounded struct{}

func (unbounded) Shrink(int64) {}
func (unbounded) Release()     {}

// hold takes what is kept beyond a request.
func (g *Gateway) hold(ctx context.Context, n int64) (reservation, error) {
	if g.cfg.Budget == nil {
		return unbounded{}, nil
	}
	r, err := g.cfg.Budget.Reserve(ctx, n)
	if err != nil {
		return nil, fmt.Errorf("plan a request: %w", err)
	}
	return r, nil
}

// indexETag names the bytes of the index object: the generation fixes content and layout, the shards'
// versions fix the binding beside it.
func indexETag(x Index) string {
	h := sha256.New()
	fmt.Fprintf(h, "millrace index\n%s\n%d\n", x.Generation(), x.Size())
	for i := range x.Shards() {
		s := x.Shard(i)
		fmt.Fprintf(h, "%s\n%s\n", strconv.Quote(s.ETag), strconv.Quote(s.VersionID))
	}
	return `"` + hex.EncodeToString(h.Sum(nil)) + `"`
}

// Handler serves the data port. Admin serves metrics, statistics and pprof on a listener of their own.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Admin serves metrics, statistics, health and pprof, and is never reachable through Handler.
func (g *Gateway) Admin() http.Handler { return g.admin }

// Close closes what requests have opened. None may be in flight.
func (g *Gateway) Close() error {
	return errors.Join(g.quarantines.close(), g.subsets.close(), g.weights.close())
}

// Drain makes readyz answer 503 from now on; new batches are refused once the lame-duck time is over.
func (g *Gateway) Drain() {
	g.drained.CompareAndSwap(0, max(1, int64(time.Since(g.started))))
}

// draining says whether Drain was called, and whether the lame-duck time is over too.
func (g *Gateway) draining() (begun, over bool) {
	at := g.drained.Load()
	if at == 0 {
		return false, false
	}
	return true, time.Since(g.started)-time.Duration(at) >= g.cfg.LameDuck
}
