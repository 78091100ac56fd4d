package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/audit"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/gateway/catalog"
	"github.com/millrace-data/millrace/gateway/dashboard"
	"github.com/millrace-data/millrace/gateway/origin"
	"github.com/millrace-data/millrace/gateway/plans"
	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/port"
	"github.com/millrace-data/millrace/internal/shared"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/shuffle"
)

// Source brings the bytes of a batch; datapath.Source is one. It keeps nothing of chunks once it has returned.
type Source interface {
	Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error)

	// Warm brings what the epoch of a cursor needs from its position First on, in order of need, into the tiers that have
	// room, for about a second. It says where to go on.
	Warm(ctx context.Context, at shuffle.Cursor) (batch.Warmed, error)
}

// Dataset is one dataset that is served.
type Dataset struct {
	Name       string
	Index      plans.Index
	Source     Source
	Importance plans.Importance // nil: no losses are taken, and no plan has weights
	Selection  plans.Selection  // nil: no plan has a subset or a quarantine
	Address    string           // of the shards, as a command line takes it
	Origin     string           // where the dataset lies and how it is reached: one of the same generation from elsewhere is another one
	Close      func()           // called once, when no request uses the dataset any more; nil: nothing is
}

// Mixture is a dataset whose batches are taken from several others that are served.
type Mixture struct {
	Name string
	address.Mixture
}

// Change is what has become of a dataset when the gateway looked again at what it is to serve.
type Change struct {
	Name       string `json:"name"`
	Generation string `json:"generation"` // that is served now; of one that was removed, the last
	Change     string `json:"change"`     // none, new, generation or removed
}

// Stat is one counter or gauge of the parts below, shown at /metrics and /v1/stats alike.
type Stat struct {
	Name  string // as in Prometheus, without the prefix millrace_: cache_hits_total
	Help  string
	Value float64
}

// Config of a Gateway. The zero value of a field means its default.
type Config struct {
	Datasets []Dataset // the first is the default one; Serve changes both
	Mixtures []Mixture // of datasets; served as datasets of their names
	// Open opens a generation of a dataset that is not the one that is served. Without it no other generation is served.
	Open catalog.Opener[Dataset]
	// Mix makes a source of several: its chunks and shards are theirs, numbered on from one to the next. Memory for a batch is taken for all of
	// them together, as of one dataset. It is needed where there are Mixtures.
	Mix     func(sources []Dataset) Source
	Reload  func(ctx context.Context, only string) ([]Change, error) // reads again what is to be served, of one dataset or ("") of all, and calls Serve; nil: there is nothing to read
	Follows bool                                                     // generations change by themselves, without Reload
	Budget  *budget.Budget                                           // nil: one without a limit
	Shared  *shared.Pool                                             // lends memory to readers on this machine; nil: they get bytes
	Log     zerolog.Logger
	Version string
	Stats   func() []Stat
	Readers func() []stats.Reader
	Cluster func() any    // what /v1/cluster shows, as JSON; nil: the gateway is alone
	Awaits  func() string // what the gateway waits for before it is ready, "" if for nothing; nil: it never waits

	Access *auth.Guard    // who asks, and what the caller may do; nil: no credentials are asked for
	Allow  []auth.Right   // without Access: what everybody may do; none: read, and see statistics
	Origin *origin.Policy // where requests may come from; nil: its zero value
	Audit  *audit.Log     // nil: none
	Trace  tracing.Tracer // of requests; the zero value: none is traced

	AdminListen      bool          // metrics, statistics and pprof are served by Admin alone, not on the data port
	FirstByteTimeout time.Duration // to the first byte, 60 s; the header Millrace-Deadline-Ms may lower it
	LameDuck         time.Duration // after Drain new batches are served this long, 10 s
	PlanBytes        int64         // prepared epochs kept in memory, 64 MiB but at most 1/64 of Budget, which they are taken from
}

const (
	defaultDeadline  = 60 * time.Second
	defaultLameDuck  = 10 * time.Second
	defaultPlanBytes = 64 << 20

	noLimit = 1 << 62 // bytes of a budget, more than any machine has
)

// Gateway is the HTTP service.
type Gateway struct {
	cfg      Config
	serving  sync.Mutex // one Serve at a time; guards planned
	planned  int64      // bytes of plans that are reserved
	datasets *catalog.Catalog[*dataset]
	mixtures mixtureCache // mixtures that URLs define
	access   *auth.Guard
	plans    *plans.Plans
	bodies   *body.Pool

	metrics   *metrics
	started   time.Time
	spec      func() ([]byte, error)         // the OpenAPI document as JSON; like page made when the first one asks
	page      func() (dashboard.Page, error) // for people
	active    atomic.Int64                   // requests being answered
	ended     atomic.Int64                   // nanoseconds after started at which the last answer ended; 0: there was none
	posted    atomic.Int64                   // bytes of memory that request bodies hold
	places    admission.Places               // to plan in, where nothing is read from a store meanwhile
	measuring admission.Places               // to measure many batches in
	records   sync.Pool                      // *[recordSize]byte, for answers over TLS
	callers   admission.Callers
	origin    *origin.Policy
	drained   atomic.Int64 // nanoseconds after started at which Drain was called; 0: not draining
	handler   http.Handler
	admin     http.Handler
}

// New checks cfg and builds the routes. It starts nothing.
func New(cfg Config) (*Gateway, error) {
	g := &Gateway{cfg: cfg, started: time.Now(), bodies: body.NewPool(), places: admission.NewPlaces(admission.PlanningPlaces()), measuring: admission.NewPlaces(admission.MeasuringPlaces), access: cfg.Access, origin: cfg.Origin}
	if g.access == nil {
		if len(cfg.Allow) == 0 {
			cfg.Allow = []auth.Right{auth.Read, auth.Admin}
		}
		g.access = auth.Everybody(cfg.Allow...)
	}
	if g.cfg.Budget == nil {
		g.cfg.Budget = budget.New(noLimit, 0)
	}
	if g.origin == nil {
		g.origin = &origin.Policy{}
	}
	if g.cfg.FirstByteTimeout <= 0 {
		g.cfg.FirstByteTimeout = defaultDeadline
	}
	if g.cfg.LameDuck <= 0 {
		g.cfg.LameDuck = defaultLameDuck
	}
	if g.cfg.PlanBytes <= 0 {
		g.cfg.PlanBytes = defaultPlanBytes
	}
	g.plans = plans.New(0, memory{g.cfg.Budget})
	g.datasets = catalog.New(g.opener(), storeFails)
	if err := g.Serve(cfg.Datasets, cfg.Mixtures); err != nil {
		return nil, err
	}
	g.spec = sync.OnceValues(func() ([]byte, error) { return openAPI(cfg.Version) })
	g.page = sync.OnceValues(dashboard.New)
	g.metrics = newMetrics(g)
	g.handler = g.router(g.dataRoutes())
	g.admin = g.router(g.adminRoutes())
	return g, nil
}

// Handler serves the data port. Admin serves metrics, statistics and pprof on a listener of their own.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Admin serves metrics, statistics, health and pprof, and is never reachable through Handler.
func (g *Gateway) Admin() http.Handler { return g.admin }

// Close closes what requests have opened, and the datasets. No request may be in flight.
func (g *Gateway) Close() error {
	err := g.plans.Close()
	g.datasets.Close()
	return err
}

// Drain makes readyz answer 503 from now on; new batches are refused once the lame-duck time is over.
func (g *Gateway) Drain() {
	g.drained.CompareAndSwap(0, max(1, int64(time.Since(g.started))))
}

// Quiet reports whether no request of any kind, a probe's included, was being answered for so long.
func (g *Gateway) Quiet(long time.Duration) bool {
	if g.active.Load() > 0 { // asked first: a request notes its end before it ceases to count
		return false
	}
	ended := g.ended.Load()
	return ended == 0 || time.Since(g.started)-time.Duration(ended) >= long
}

// draining says whether Drain was called, and whether the lame-duck time is over too.
func (g *Gateway) draining() (begun, over bool) {
	at := g.drained.Load()
	if at == 0 {
		return false, false
	}
	return true, time.Since(g.started)-time.Duration(at) >= g.cfg.LameDuck
}

// Active returns how many requests are being answered.
func (g *Gateway) Active() int64 { return g.active.Load() }

// ServerConfig of the server of a data port. The zero value of a field means its default, as port.Config has it.
type ServerConfig struct {
	Connections int
	DrainTime   time.Duration
	TLS         *tls.Config
	Leave       func() bool
}

// A connection takes about 16 KiB beside the budget while it sends a head. So that those of a small gateway stay within
// the memory that it has beside the budget, it has one for each 64 KiB of the budget.
const (
	budgetPerConnection = 64 << 10
	leastConnections    = 256
)

// connections is how many the data port has at a time, unless a number is wanted.
func (g *Gateway) connections(wanted int) int {
	if wanted > 0 {
		return wanted
	}
	return min(port.MostConnections(), max(leastConnections, int(g.cfg.Budget.Total()/budgetPerConnection)))
}

// NewServer builds the server of the gateway's data port. It starts nothing.
func NewServer(g *Gateway, cfg ServerConfig) *port.Server {
	return port.New(port.Config{
		Handler: g.handler, Service: g, Log: g.cfg.Log, LameDuck: g.cfg.LameDuck,
		Connections: g.connections(cfg.Connections), DrainTime: cfg.DrainTime, TLS: cfg.TLS, BaseContext: origin.OfListener, Leave: cfg.Leave,
	})
}

// ServeAdmin serves the gateway's admin port until ctx ends, as plain HTTP where secret is nil.
func ServeAdmin(ctx context.Context, g *Gateway, ln net.Listener, secret *tls.Config) error {
	return port.ServeAdmin(ctx, g.admin, origin.OfListener, g.cfg.Log, ln, secret)
}

// ServeHealth serves the gateway's health port until ctx ends, as plain HTTP: nothing there needs a right. Its connections are its own,
// so that clients of the other ports cannot keep probes waiting.
func ServeHealth(ctx context.Context, g *Gateway, ln net.Listener) error {
	return port.ServeAdmin(ctx, g.router(g.healthRoutes()), origin.OfListener, g.cfg.Log, ln, nil)
}
