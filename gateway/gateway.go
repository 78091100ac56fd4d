package gateway

import (
	"cmp"
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

// Source reads the bytes of a batch, such as datapath.Source. It must not retain chunks after it
// returns.
type Source interface {
	Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error)

	// Warm loads the chunks that the epoch of a cursor needs from position First, in order of need,
	// into tiers with space. It runs for about a second and returns the next position.
	Warm(ctx context.Context, at shuffle.Cursor) (batch.Warmed, error)
}

// Dataset is a dataset to serve.
type Dataset struct {
	Name       string
	Index      plans.Index
	Source     Source
	Importance plans.Importance // nil: losses are rejected, and plans have no weights
	Selection  plans.Selection  // nil: plans have no subset or quarantine
	Address    string           // address of the shards, in the form of the command line
	// Origin identifies the location and access of the dataset. The same generation from another
	// origin is a different dataset.
	Origin string
	Close  func() // called once, after the last request; nil: nothing to close
	// Fault is the reason why the dataset is not open; the other fields but Name are not set. Requests
	// for the dataset and its mixtures get 503.
	Fault error
}

// Mixture is a dataset whose batches mix several served datasets.
type Mixture struct {
	Name string
	address.Mixture
}

// Change is the effect of a reload on one dataset.
type Change struct {
	Name       string `json:"name"`
	Generation string `json:"generation"` // current generation; of a removed dataset, the last one
	Change     string `json:"change"`     // none, new, generation or removed
}

// Stat is a counter or gauge of another component, exported at /metrics and /v1/stats.
type Stat struct {
	Name   string // Prometheus name without the prefix millrace_: cache_hits_total
	Help   string
	Value  float64
	Labels map[string]string // same keys in each Stat of a name; nil: none
}

// Config configures a Gateway. A zero field means its default.
type Config struct {
	Datasets []Dataset // initial datasets, the first one being the default; Serve replaces them
	Mixtures []Mixture // initial mixtures, each served as a dataset
	// Open opens a generation that is not the current one. nil: only current generations are
	// served.
	Open catalog.Opener[Dataset]
	// Mix returns a source that combines several: their chunks and shards are numbered
	// consecutively. The memory for a batch is reserved once for all of them. Mixtures require it.
	Mix func(sources []Dataset) Source
	// Reload reloads the configuration of one dataset, or of all datasets (""), and calls
	// Serve. nil: reload is not supported.
	Reload  func(ctx context.Context, only string) ([]Change, error)
	Follows bool           // generations change by themselves, without Reload
	Budget  *budget.Budget // nil: unlimited
	// memory shared with readers on this machine; nil: all batches are sent as bytes
	Shared  *shared.Pool
	Log     zerolog.Logger
	Version string
	Stats   func() []Stat
	Readers func() []stats.Reader
	Cluster func() any    // returns the content of /v1/cluster; nil: no cluster
	Awaits  func() string // returns the reason why the gateway is not ready, or ""; nil: it never waits

	Access *auth.Guard    // authenticates callers and checks rights; nil: no credentials are required
	Allow  []auth.Right   // rights of every caller without Access; empty: read and admin
	Origin *origin.Policy // allowed origins of requests; nil: the zero Policy
	Audit  *audit.Log     // nil: no audit log
	Trace  tracing.Tracer // traces requests; the zero value traces none

	AdminListen      bool          // metrics, statistics and pprof only on the admin port, not on the data port
	FirstByteTimeout time.Duration // time to the first byte, default 60 s; the header Millrace-Deadline-Ms can lower it
	LameDuck         time.Duration // how long new batches are served after Drain, default 10 s
	// PlanBytes is the memory for prepared epochs, taken from Budget. Default 64 MiB, but at most
	// 1/64 of Budget.
	PlanBytes int64
}

const (
	defaultDeadline  = 60 * time.Second
	defaultLameDuck  = 10 * time.Second
	defaultPlanBytes = 64 << 20

	noLimit = 1 << 62 // budget in bytes, more than any machine has
)

// Gateway is the HTTP service.
type Gateway struct {
	cfg      Config
	serving  sync.Mutex // serializes Serve; guards planned
	planned  int64      // reserved bytes for plans
	datasets *catalog.Catalog[*dataset]
	mixtures mixtureCache // mixtures defined by URLs
	served   atomic.Pointer[served]
	access   *auth.Guard
	plans    *plans.Plans
	bodies   *body.Pool

	metrics   *metrics
	started   time.Time
	spec      func() ([]byte, error)         // OpenAPI document as JSON; made on the first request, like page
	page      func() (dashboard.Page, error) // dashboard
	active    atomic.Int64                   // requests in progress
	ended     atomic.Int64                   // end of the last response in nanoseconds after started; 0: none
	posted    atomic.Int64                   // memory held by request bodies, in bytes
	places    admission.Places               // planning slots for datasets that read no store while planning
	measuring admission.Places               // slots for measuring many batches
	records   sync.Pool                      // *[recordSize]byte, for responses over TLS
	callers   admission.Callers
	origin    *origin.Policy
	drained   atomic.Int64 // time of Drain in nanoseconds after started; 0: not draining
	handler   http.Handler
	admin     http.Handler
}

// New checks cfg and builds the routes. It starts no goroutine.
func New(cfg Config) (*Gateway, error) {
	g := &Gateway{cfg: cfg, started: time.Now(), bodies: body.NewPool(), places: admission.NewPlaces(admission.PlanningPlaces()), measuring: admission.NewPlaces(admission.MeasuringPlaces), access: cfg.Access, origin: cmp.Or(cfg.Origin, &origin.Policy{})}
	if g.access == nil {
		if len(cfg.Allow) == 0 {
			cfg.Allow = []auth.Right{auth.Read, auth.Admin}
		}
		g.access = auth.Everybody(cfg.Allow...)
	}
	g.cfg.Budget = cmp.Or(cfg.Budget, budget.New(noLimit, 0))
	g.cfg.FirstByteTimeout = cmp.Or(cfg.FirstByteTimeout, defaultDeadline)
	g.cfg.LameDuck = cmp.Or(cfg.LameDuck, defaultLameDuck)
	g.cfg.PlanBytes = cmp.Or(cfg.PlanBytes, defaultPlanBytes)
	g.plans = plans.New(memory{g.cfg.Budget})
	g.datasets = catalog.New(g.opener(), StoreFails)
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

// Handler returns the handler of the data port.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Admin returns the handler of the admin port: metrics, statistics, health and pprof. Handler never
// serves pprof.
func (g *Gateway) Admin() http.Handler { return g.admin }

// Close closes the plans and datasets. No request may be in progress.
func (g *Gateway) Close() error {
	err := g.plans.Close()
	g.datasets.Close()
	return err
}

// Drain makes readyz return 503. New batches are refused after the lame-duck time.
func (g *Gateway) Drain() {
	g.drained.CompareAndSwap(0, max(1, int64(time.Since(g.started))))
}

// Quiet reports whether no request, probes included, was in progress for the given time.
func (g *Gateway) Quiet(long time.Duration) bool {
	if g.active.Load() > 0 { // checked first: a request sets ended before it decrements active
		return false
	}
	ended := g.ended.Load()
	return ended == 0 || time.Since(g.started)-time.Duration(ended) >= long
}

// draining reports whether Drain was called, and whether the lame-duck time is over.
func (g *Gateway) draining() (begun, over bool) {
	at := g.drained.Load()
	if at == 0 {
		return false, false
	}
	return true, time.Since(g.started)-time.Duration(at) >= g.cfg.LameDuck
}

// Active returns the number of requests in progress.
func (g *Gateway) Active() int64 { return g.active.Load() }

// ServerConfig configures the server of the data port. A zero field means its default, as in
// port.Config.
type ServerConfig struct {
	Connections int
	DrainTime   time.Duration
	TLS         *tls.Config
	Leave       func() bool
}

// A connection uses about 16 KiB outside the budget while it sends its headers. One connection per
// 64 KiB of the budget keeps the connections of a small gateway within its memory outside the
// budget.
const (
	budgetPerConnection = 64 << 10
	leastConnections    = 256
)

// connections returns the maximum number of connections of the data port.
func (g *Gateway) connections(wanted int) int {
	return cmp.Or(wanted, min(port.MostConnections(), max(leastConnections, int(g.cfg.Budget.Total()/budgetPerConnection))))
}

// NewServer builds the server of the data port. It starts nothing.
func NewServer(g *Gateway, cfg ServerConfig) *port.Server {
	return port.New(port.Config{
		Handler: g.handler, Service: g, Log: g.cfg.Log, LameDuck: g.cfg.LameDuck,
		Connections: g.connections(cfg.Connections), DrainTime: cfg.DrainTime, TLS: cfg.TLS, BaseContext: origin.OfListener, Leave: cfg.Leave,
	})
}

// ServeAdmin serves the admin port until ctx ends. It serves plain HTTP if secret is nil.
func ServeAdmin(ctx context.Context, g *Gateway, ln net.Listener, secret *tls.Config) error {
	return port.ServeAdmin(ctx, g.admin, origin.OfListener, g.cfg.Log, ln, secret)
}

// ServeHealth serves the health port until ctx ends, over plain HTTP, since it needs no rights. Its
// connections are counted separately, so that other clients cannot delay probes.
func ServeHealth(ctx context.Context, g *Gateway, ln net.Listener) error {
	return port.ServeAdmin(ctx, g.router(g.healthRoutes()), origin.OfListener, g.cfg.Log, ln, nil)
}
