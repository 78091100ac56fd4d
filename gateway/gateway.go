// Package gateway serves batches over HTTP.
package gateway

import (
	"context"
	"net/http"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// Source brings the bytes of a batch; datapath.Source is one.
type Source interface {
	Read(ctx context.Context, at shuffle.Cursor, chunks []chunkindex.ChunkRanges) (*chunkindex.Body, error)
}

// Dataset is one data set that is served.
type Dataset struct {
	Name   string
	Index  *chunkindex.Index
	Source Source
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
	Budget   *budget.Budget
	Log      zerolog.Logger
	Version  string
	Stats    func() []Stat
}

// Gateway is the HTTP service.
type Gateway struct{}

// New checks cfg and builds the routes. It starts nothing.
func New(cfg Config) (*Gateway, error) { return nil, nil }

// Handler serves the data port. Admin serves metrics, statistics and pprof on a listener of their own.
func (g *Gateway) Handler() http.Handler { return nil }
func (g *Gateway) Admin() http.Handler   { return nil }

// Drain makes readyz answer 503 from now on; new batches are refused once the lame-duck time is over.
func (g *Gateway) Drain() {}
