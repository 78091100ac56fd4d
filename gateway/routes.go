package gateway

import (
	"net/http"
	"net/http/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
)

// router returns an empty router, and what adds to it a path that answers GET and HEAD.
func (g *Gateway) router() (r *chi.Mux, get func(pattern string, h handlerFunc)) {
	r = chi.NewRouter()
	unrouted := g.edge("unknown", 0, func(x *exchange) error { return unrouted(x, r) })
	r.NotFound(unrouted)
	r.MethodNotAllowed(unrouted)
	return r, func(pattern string, h handlerFunc) {
		name, _, narrowed := strings.Cut(pattern, ":")
		if narrowed { // a regular expression ends the pattern
			name += "}"
		}
		f := g.edge(name, 0, h)
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
	// The pattern leaves "snapshots" out: it is the path of a POST.
	const snapshot = "/v1/datasets/{dataset}/importance/{snapshot:[0-9A-Fa-f]+}"
	get(snapshot, g.getSnapshot)
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
	profile := func(pattern string, h http.HandlerFunc) { r.Get(pattern, g.edge(pattern, 0, getProfile(h))) }
	profile("/debug/pprof/*", pprof.Index)
	profile("/debug/pprof/cmdline", pprof.Cmdline)
	profile("/debug/pprof/profile", pprof.Profile)
	profile("/debug/pprof/symbol", pprof.Symbol)
	profile("/debug/pprof/trace", pprof.Trace)
	return r
}

// maxProfile bounds how many seconds a profile or a trace takes: somebody waits for it, with a connection open.
const maxProfile = 60

// getProfile answers with what h observes for as many seconds as the parameter seconds says. The deadline to the first
// byte does not apply.
func getProfile(h http.HandlerFunc) handlerFunc {
	return func(x *exchange) error {
		if text := x.r.URL.Query().Get("seconds"); text != "" {
			if seconds, err := strconv.ParseFloat(text, 64); err != nil || !(seconds > 0 && seconds <= maxProfile) {
				return invalid("seconds: must be a number above 0 and at most %d", maxProfile)
			}
		}
		h(unhurried{x.w}, x.whole)
		return nil
	}
}

// unhurried takes a trace, which comes as slowly as the program makes it: the reader is not to blame.
type unhurried struct{ *responseWriter }

func (w unhurried) Write(p []byte) (int, error) {
	w.renew()
	return w.responseWriter.Write(p)
}

// unrouted answers what no route takes. OPTIONS and a method that the path does not take are told those that it takes;
// * stands for all paths.
func unrouted(x *exchange, r chi.Routes) error {
	methods := []string{
		http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions,
		http.MethodPatch, http.MethodPost, http.MethodPut, http.MethodTrace,
	}
	if !slices.Contains(methods, x.r.Method) {
		return &problem{Status: http.StatusNotImplemented, Code: codeNotImplemented, Detail: "the gateway does not know this method"}
	}
	path := x.r.URL.Path
	if x.r.URL.RawPath != "" {
		path = x.r.URL.RawPath // what the router went by
	}
	allowed := []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPost}
	if x.r.RequestURI != "*" && x.r.Method != http.MethodConnect {
		allowed = slices.DeleteFunc(allowed, func(method string) bool {
			return method != http.MethodOptions && !r.Match(chi.NewRouteContext(), method, path)
		})
	}
	if len(allowed) == 1 {
		return &problem{Status: http.StatusNotFound, Code: codeNotFound, Detail: "no such path"}
	}
	x.w.Header().Set("Allow", strings.Join(allowed, ", "))
	if x.r.Method == http.MethodOptions {
		x.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return &problem{
		Status: http.StatusMethodNotAllowed, Code: codeMethodNotAllowed,
		Detail: "this path takes " + strings.Join(allowed, ", ") + " alone",
	}
}
