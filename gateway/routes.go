package gateway

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/go-chi/chi/v5"
)

// router returns an empty router, and what adds to it a path that answers GET and HEAD.
func (g *Gateway) router() (r *chi.Mux, get func(pattern string, h handlerFunc)) {
	r = chi.NewRouter()
	r.NotFound(g.edge("unknown", 0, g.unknownPath))
	r.MethodNotAllowed(g.edge("unknown", 0, func(x *exchange) error { return unknownMethod(x, r) }))
	return r, func(pattern string, h handlerFunc) {
		f := g.edge(pattern, 0, h)
		r.Get(pattern, f)
		r.Head(pattern, f)
	}
}

// routes is everything the data port answers.
func (g *Gateway) routes() http.Handler {
	r, get := g.router()
	get("/epoch/{epoch}/batch/{batch}", g.getBatch)
	get("/epoch/{epoch}/batches", g.getBatches)
	get("/v1/datasets", g.getDatasets)
	get("/v1/datasets/{dataset}", g.getDataset)
	get("/v1/datasets/{dataset}/epochs/{epoch}", g.getEpoch)
	get("/v1/datasets/{dataset}/epochs/{epoch}/batches", g.getBatches)
	for directory, v := range map[string]virtual{"mds": virtualMDS(), "wds": virtualTars()} {
		get("/v1/datasets/{dataset}/epochs/{epoch}/"+directory+"/{file}", g.getVirtual(v))
		get("/v1/datasets/{dataset}/epochs/{epoch}/"+directory+"/{plan}/{file}", g.getVirtual(v))
	}
	get("/v1/datasets/{dataset}/epochs/{epoch}/batches/{batch}", g.getBatch)
	get("/v1/datasets/{dataset}/epochs/{epoch}/batches/{batch}/manifest", g.getManifest)
	get("/v1/datasets/{dataset}/sample", g.getSample)
	get("/v1/datasets/{dataset}/occurrences", g.getOccurrences)
	get("/v1/datasets/{dataset}/index", g.getIndex)
	get("/v1/datasets/{dataset}/importance/{snapshot}", g.getSnapshot)
	post := func(pattern string, body int64, h handlerFunc) { r.Post(pattern, g.edge(pattern, body, h)) }
	post("/v1/datasets/{dataset}/warm", 0, g.postWarm)
	post("/v1/datasets/{dataset}/importance", maxReports, g.postReports)
	post("/v1/datasets/{dataset}/importance/snapshots", maxBody, g.postSnapshot)
	get("/healthz", g.getHealth)
	get("/readyz", g.getReady)
	get("/openapi.json", g.getSpec)
	get("/", g.getRoot)
	if !g.cfg.AdminListen {
		get("/metrics", g.getMetrics)
		get("/v1/stats", g.getStats)
		get("/v1/cluster", g.getCluster)
	}
	return r
}

// adminRoutes is everything the admin port answers: the only place of pprof.
func (g *Gateway) adminRoutes() http.Handler {
	r, get := g.router()
	get("/metrics", g.getMetrics)
	get("/v1/stats", g.getStats)
	get("/v1/cluster", g.getCluster)
	get("/healthz", g.getHealth)
	get("/readyz", g.getReady)
	r.Get("/debug/pprof/*", pprof.Index)
	r.Get("/debug/pprof/cmdline", pprof.Cmdline)
	r.Get("/debug/pprof/profile", pprof.Profile)
	r.Get("/debug/pprof/symbol", pprof.Symbol)
	r.Get("/debug/pprof/trace", pprof.Trace)
	return r
}

func (g *Gateway) unknownPath(x *exchange) error {
	return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no such path"}
}

// unknownMethod names the methods that the path takes.
func unknownMethod(x *exchange, r chi.Routes) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if r.Match(chi.NewRouteContext(), method, x.r.URL.Path) {
			allowed = append(allowed, method)
		}
	}
	x.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &problem{
		Status: http.StatusMethodNotAllowed, Code: codeMethodNotAllowed,
		Detail: strings.Join(allowed, " and ") + " alone may be used here",
	}
}
