package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/origin"
	"github.com/millrace-data/millrace/internal/budget"
)

// authorize says who asks, finds the dataset that the path names, and refuses a caller that lacks the route's right.
func (g *Gateway) authorize(x *exchange) error {
	if x.route.right == auth.None {
		x.open = true
		return nil
	}
	name, ofDataset := g.datasetName(x)
	if err := g.permit(x, name, ofDataset); err != nil {
		x.refused = true
		return err
	}
	if err := g.checkRate(x); err != nil {
		x.refused = true
		return err
	}
	x.open = g.may(auth.Anonymous(), auth.Read, name)
	if !ofDataset {
		return nil
	}
	if x.dataset = g.byName[name]; x.dataset == nil {
		return notServed(name)
	}
	x.log.dataset = name
	if x.changes() && g.cfg.Audit.Err() != nil {
		return &problem{
			Status: http.StatusServiceUnavailable, Code: codeAudit, Retryable: true, RetryAfter: time.Second, Cause: g.cfg.Audit.Err(),
			Detail: "the audit log cannot be written, and without it the gateway takes no writes",
		}
	}
	return nil
}

// permit identifies the caller, and refuses one that may not use the route.
func (g *Gateway) permit(x *exchange, name string, ofDataset bool) (err error) {
	if err := g.origin.Check(x.r); err != nil {
		return err
	}
	if err := g.origin.CheckTransport(x.r); err != nil {
		return err
	}
	credentials := auth.Credentials{Authorization: x.r.Header.Values("Authorization")}
	if x.r.TLS != nil && len(x.r.TLS.VerifiedChains) > 0 {
		credentials.Certificates = x.r.TLS.VerifiedChains[0]
	}
	if x.principal, err = g.access.Authenticate(credentials); errors.Is(err, auth.ErrNoKeys) {
		return fmt.Errorf("authenticate: %w", err)
	}
	if err != nil {
		return unauthenticated(x, `, error="invalid_token"`, err)
	}
	if !g.may(x.principal, x.route.right, name) {
		return g.denied(x, name, ofDataset)
	}
	return nil
}

// changes reports whether the request is one that writes: to the bucket, or into the caches that others use.
func (x *exchange) changes() bool { return x.route.method == http.MethodPost }

// datasetName returns the name of the dataset that a route is about, if it is about one.
func (g *Gateway) datasetName(x *exchange) (string, bool) {
	if strings.HasPrefix(x.route.pattern, "/epoch/") {
		return g.datasets[0].Name(), true
	}
	return chi.URLParam(x.r, "dataset"), strings.Contains(x.route.pattern, "{dataset}")
}

// may reports whether a principal has a right on a dataset, whether or not there is one of this name. A mixture is read by
// those who may read its sources, unless a grant says otherwise.
func (g *Gateway) may(p auth.Principal, right auth.Right, name string) bool {
	if name == "" && right == auth.Read {
		return true // the list of the datasets that the principal may read
	}
	if !g.access.May(p, right, name) {
		return false
	}
	d := g.byName[name]
	return d == nil || d.sources == nil || g.access.GrantsSources(p, name) ||
		!slices.ContainsFunc(d.sources, func(source string) bool { return !g.access.May(p, auth.Read, source) })
}

// denied is the problem of a caller that lacks a right. Who may not read a dataset does not learn whether there is one.
func (g *Gateway) denied(x *exchange, name string, ofDataset bool) error {
	readable := ofDataset && g.byName[name] != nil && g.may(x.principal, auth.Read, name)
	switch {
	case g.cfg.Access == nil:
		return forbidden("this gateway lets nobody do this: start it with --allow %s, or with an --access file", x.route.right)
	case x.principal.Anonymous() && !readable:
		return unauthenticated(x, "", nil)
	case readable || !ofDataset:
		return forbidden("the credentials lack the right %q", x.route.right)
	case strings.HasPrefix(x.route.pattern, "/epoch/"):
		return address.Refuse(address.NotFound, "the default dataset is not served to these credentials: GET /v1/datasets lists those that are")
	}
	return notServed(name)
}

func notServed(name string) error {
	return address.Refuse(address.NotFound, "no dataset %.100q is served: GET /v1/datasets lists those that are", name)
}

// unauthenticated asks the caller for credentials. fault goes into the challenge.
func unauthenticated(x *exchange, fault string, cause error) *problem {
	x.w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`+fault)
	p := &problem{Status: http.StatusUnauthorized, Code: codeUnauthenticated, Detail: "credentials are needed here: Authorization: Bearer TOKEN", Cause: cause}
	if cause != nil {
		p.Detail = "the credentials are not valid: they are unknown, have expired, or are not in the form of Authorization: Bearer TOKEN"
	}
	return p
}

// caller is the name under which limits count a principal.
func (g *Gateway) caller(x *exchange) string {
	if !x.principal.Anonymous() {
		return x.principal.Name
	}
	return x.principal.Name + " " + origin.Network(g.origin.Caller(x.r))
}

// checkRate refuses a principal that asks more often than its limit allows.
func (g *Gateway) checkRate(x *exchange) error {
	limit := g.access.Limits(x.principal).Requests
	if limit <= 0 {
		return nil
	}
	if wait := g.callers.Request(g.caller(x), limit); wait > 0 {
		return tooMany(wait, "these credentials ask more often than their limit allows")
	}
	return nil
}

// holdAnswer takes memory for an answer of n bytes out of the principal's share. A refusal counts as an overload too: the
// next batch of a long answer is tried again once the one before has given its memory back.
func (g *Gateway) holdAnswer(x *exchange, n int64) (release func(), err error) {
	share := g.access.Limits(x.principal).Memory
	if share <= 0 || g.cfg.Budget == nil {
		return func() {}, nil
	}
	release, ok := g.callers.Hold(g.caller(x), n, int64(share*float64(g.cfg.Budget.Total())))
	if !ok {
		p := tooMany(time.Second, "the batches that these credentials are being sent hold their share of the memory")
		p.Cause = budget.ErrOverloaded
		return nil, p
	}
	return release, nil
}

func tooMany(wait time.Duration, detail string) *problem {
	return &problem{Status: http.StatusTooManyRequests, Code: codeTooManyRequests, Retryable: true, RetryAfter: wait, Detail: detail}
}

// cacheControl lets caches keep data that a URL pins for ever, and revalidate all other data. Caches that serve several
// callers may have what everybody may read, and nothing else.
func (x *exchange) cacheControl(pinned bool) string {
	return x.keep(pinned, "max-age=31536000, immutable")
}

// describing is cacheControl for a description: the next release may say more.
func (x *exchange) describing(pinned bool) string { return x.keep(pinned, "max-age=3600") }

func (x *exchange) keep(pinned bool, howLong string) string {
	switch {
	case pinned && x.open:
		return "public, " + howLong
	case pinned:
		return "private, " + howLong
	case x.open:
		return "no-cache"
	}
	return "private, no-cache"
}
