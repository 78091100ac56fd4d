package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/dashboard"
	"github.com/millrace-data/millrace/internal/words"
)

// getRoot sends the dashboard to browsers, and links to the API to programs.
func (g *Gateway) getRoot(x *exchange) error {
	scheme := "http"
	if x.r.TLS != nil {
		scheme = "https"
	}
	links := map[string]string{
		"datasets": "/v1/datasets",
		"batch":    "/epoch/0/batch/0",
		"openapi":  "/openapi.json",
		"health":   "/healthz",
		"ready":    "/readyz",
	}
	if !g.cfg.AdminListen {
		maps.Copy(links, g.statisticsLinks())
	}
	return g.sendRoot(x, map[string]any{
		"service": "millrace",
		"version": g.cfg.Version,
		// quoted, since Host may contain quotes; format=tar, since the default form depends
		// on the dataset
		"try":   fmt.Sprintf("curl %s | tar -t", words.Quoted(scheme+"://"+x.r.Host+"/epoch/0/batch/0?format=tar")),
		"links": links,
	})
}

// getAdminRoot is like getRoot, for the admin port.
func (g *Gateway) getAdminRoot(x *exchange) error {
	links := g.statisticsLinks()
	links["health"], links["ready"] = "/healthz", "/readyz"
	return g.sendRoot(x, map[string]any{"service": "millrace", "version": g.cfg.Version, "links": links})
}

// statisticsLinks returns the links to statistics. The dashboard shows bottlenecks if these links
// exist.
func (g *Gateway) statisticsLinks() map[string]string {
	links := map[string]string{"metrics": "/metrics", "statistics": "/v1/stats"}
	if g.cfg.Cluster != nil {
		links["cluster"] = "/v1/cluster"
	}
	return links
}

func (g *Gateway) sendRoot(x *exchange, links map[string]any) error {
	x.w.Header().Set("Vary", "Accept")
	if accept := x.accept(); address.Quality(accept, "text/html") > address.Quality(accept, "application/json") {
		return g.sendFile(x, dashboard.Start)
	}
	return sendJSON(x, links)
}

// getPage sends a file of the dashboard. The files contain no data of users.
func (g *Gateway) getPage(x *exchange) error {
	if err := noQuery(x); err != nil {
		return err
	}
	return g.sendFile(x, chi.URLParam(x.r, "file"))
}

func (g *Gateway) sendFile(x *exchange, name string) error {
	page, err := g.page()
	if err != nil {
		return err
	}
	f, ok := page[name]
	if !ok {
		return address.Refuse(address.NotFound, "the page has no such file")
	}
	h := x.w.Header()
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache") // another release has different files with the same names
	content, etag := f.Content, f.ETag
	if address.Quality(strings.Join(x.r.Header.Values("Accept-Encoding"), ","), "gzip") > 0 {
		h.Set("Content-Encoding", "gzip")
		content, etag = f.Gzip, strings.TrimSuffix(f.ETag, `"`)+`-gzip"` // a strong ETag identifies one representation
	}
	h.Set("ETag", etag)
	h.Set("Content-Security-Policy", dashboard.Policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if answered, err := x.preconditions(etag); answered || err != nil {
		return err
	}
	sendBytes(x, http.StatusOK, f.Type, content)
	return nil
}
