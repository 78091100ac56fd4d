package gateway

import (
	"math"
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/body"
	"github.com/millrace-data/millrace/internal/sending"
)

// route is one row of the routing table: method, pattern, required right, maximum body in bytes,
// handler. A GET route also accepts HEAD. The right applies to the dataset in the path; short paths
// below /epoch mean the default dataset.
type route struct {
	method  string
	pattern string
	right   auth.Right
	body    int64
	handler handlerFunc
}

// dataRoutes is the routing table of the data port.
func (g *Gateway) dataRoutes() []route {
	const (
		get     = http.MethodGet
		post    = http.MethodPost
		dataset = "/v1/datasets/{dataset}"
		epoch   = dataset + "/epochs/{epoch}"
		weights = dataset + "/importance"
		none    = auth.None
		read    = auth.Read
		report  = auth.Report
		warm    = auth.Warm
	)
	mds, wds := g.getDirectory(body.MDSDirectory()), g.getDirectory(body.TarDirectory())
	routes := []route{
		{get, "/epoch/{epoch}/batch/{batch}", read, 0, addressed(g.decodeBatch, g.answerAny)},
		{get, "/epoch/{epoch}/batches", read, 0, g.getBatches},
		{get, "/v1/datasets", read, 0, g.getDatasets},
		{get, dataset, read, 0, g.getDataset},
		{get, epoch, read, 0, addressed(g.decodeEpoch, g.answerEpoch)},
		{get, epoch + "/draws", read, 0, g.getDraws},
		{get, epoch + "/batches", read, 0, g.getBatches},
		{get, epoch + "/batches/{batch}", read, 0, addressed(g.decodeBatch, g.answerAny)},
		{get, epoch + "/batches/{batch}/manifest", read, 0, addressed(g.decodeBatch, g.answerManifest)},
		{get, epoch + "/samples", read, 0, addressed(g.decodeSamples, g.answerAny)},
		{get, epoch + "/samples/manifest", read, 0, addressed(g.decodeSamples, g.answerManifest)},
		{get, epoch + "/mds/{file}", read, 0, mds},
		{get, epoch + "/mds/{plan}/{file}", read, 0, mds},
		{get, epoch + "/wds/{file}", read, 0, wds},
		{get, epoch + "/wds/{plan}/{file}", read, 0, wds},
		{get, dataset + "/sample", read, 0, g.getSample},
		{get, dataset + "/occurrences", read, 0, g.getOccurrences},
		{get, dataset + "/index", read, 0, g.getIndex},
		{post, dataset + "/warm", warm, 0, g.postWarm},
		{post, dataset + "/subsets", report, maxSubset, g.postSubset},
		{get, dataset + "/schedules", read, 0, g.getSchedules},
		{post, dataset + "/schedules", report, maxSchedule, g.postSchedule},
		{post, weights, report, maxReports, g.postReports},
		{post, weights + "/snapshots", report, maxBody, g.postSnapshot},
		// The pattern excludes "snapshots", which is the path of a POST.
		{get, weights + "/{snapshot:[0-9A-Fa-f]+}", read, 0, g.getSnapshot},
		{get, "/openapi.json", none, 0, g.getSpec},
		{get, "/", none, 0, g.getRoot},
		{get, "/page/{file}", none, 0, g.getPage},
	}
	routes = append(routes, g.healthRoutes()...)
	if !g.cfg.AdminListen {
		routes = append(routes, g.statisticsRoutes()...)
	}
	return routes
}

// healthRoutes is the routing table of the health port. The other ports include it.
func (g *Gateway) healthRoutes() []route {
	return []route{
		{http.MethodGet, "/healthz", auth.None, 0, g.getHealth},
		{http.MethodGet, "/readyz", auth.None, 0, g.getReady},
	}
}

// statisticsRoutes returns the routes about the gateway itself.
func (g *Gateway) statisticsRoutes() []route {
	return []route{
		{http.MethodGet, "/metrics", auth.Admin, 0, g.getMetrics},
		{http.MethodGet, "/v1/stats", auth.Admin, 0, g.getStats},
		{http.MethodGet, "/v1/cluster", auth.Admin, 0, g.getCluster},
		{http.MethodPost, "/v1/reload", auth.Admin, 0, g.postReload},
	}
}

// adminRoutes is the routing table of the admin port, the only port that serves pprof.
func (g *Gateway) adminRoutes() []route {
	return append(append(g.statisticsRoutes(), g.healthRoutes()...),
		route{http.MethodGet, "/", auth.None, 0, g.getAdminRoot},
		route{http.MethodGet, "/page/{file}", auth.None, 0, g.getPage},
		route{http.MethodGet, "/debug/pprof/*", auth.Admin, 0, getProfile(pprof.Index)},
		route{http.MethodGet, "/debug/pprof/cmdline", auth.Admin, 0, getProfile(pprof.Cmdline)},
		route{http.MethodGet, "/debug/pprof/profile", auth.Admin, 0, getProfile(pprof.Profile)},
		route{http.MethodGet, "/debug/pprof/symbol", auth.Admin, 0, getProfile(pprof.Symbol)},
		route{http.MethodGet, "/debug/pprof/trace", auth.Admin, 0, getProfile(pprof.Trace)})
}

// name returns the pattern without its regular expressions, for logs and metrics.
func (row route) name() string {
	name, _, narrowed := strings.Cut(row.pattern, ":")
	if narrowed { // the regular expression ends the pattern
		name += "}"
	}
	return name
}

// router returns the handler of a routing table.
func (g *Gateway) router(table []route) http.Handler {
	r := chi.NewRouter()
	unrouted := g.edge(route{pattern: "unknown", right: auth.None, handler: func(x *exchange) error { return unrouted(x, r) }})
	r.NotFound(unrouted)
	r.MethodNotAllowed(unrouted)
	for _, row := range table {
		h := g.edge(row)
		r.Method(row.method, row.pattern, h)
		if row.method == http.MethodGet {
			r.Method(http.MethodHead, row.pattern, h)
		}
	}
	return r
}

// maxProfile bounds the seconds of a profile or trace, which keeps a connection open.
const maxProfile = 60

// getProfile runs h for the number of seconds in the parameter seconds. The deadline of the first
// byte does not apply.
func getProfile(h http.HandlerFunc) handlerFunc {
	return func(x *exchange) error {
		if text := x.r.URL.Query().Get("seconds"); text != "" {
			if seconds, err := strconv.ParseFloat(text, 64); err != nil || !(seconds > 0 && seconds <= maxProfile) {
				return invalid("seconds: must be a number above 0 and at most %d", maxProfile)
			} else if seconds != math.Trunc(seconds) && x.route.pattern != "/debug/pprof/trace" { // pprof would use 30 s
				return invalid("seconds: must be a whole number; only a trace accepts a fraction")
			}
		}
		h(untimedWriter{x.w}, x.whole)
		return nil
	}
}

// untimedWriter sends a trace without the minimum rate of other responses, because the program sets
// the pace.
type untimedWriter struct{ *sending.Writer }

func (w untimedWriter) Write(p []byte) (int, error) {
	w.Renew(0)
	return w.Writer.Write(p)
}

// unrouted handles requests that no route accepts. Responses to OPTIONS and to disallowed methods
// list the allowed methods; * means all paths.
func unrouted(x *exchange, r chi.Routes) error {
	methods := []string{
		http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions,
		http.MethodPatch, http.MethodPost, http.MethodPut, http.MethodTrace,
	}
	if !slices.Contains(methods, x.r.Method) {
		return &problem{Code: codeNotImplemented, Detail: "the gateway does not support this method"}
	}
	path := x.r.URL.Path
	if x.r.URL.RawPath != "" {
		path = x.r.URL.RawPath // the form that the router matches
	}
	allowed := []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost}
	// An absolute URL without a path means * (RFC 9112, 3.2.4).
	if path != "*" && path != "" && x.r.Method != http.MethodConnect {
		allowed = slices.DeleteFunc(allowed, func(method string) bool {
			return method != http.MethodOptions && !r.Match(chi.NewRouteContext(), method, path)
		})
	}
	if len(allowed) == 1 {
		return &problem{Code: codeNotFound, Detail: "the gateway has no such path"}
	}
	x.w.Header().Set("Allow", strings.Join(allowed, ", "))
	if x.r.Method == http.MethodOptions {
		x.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &problem{
		Code:   codeMethodNotAllowed,
		Detail: "allowed methods: " + strings.Join(allowed, ", "),
	}
}
