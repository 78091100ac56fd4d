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
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/origin"
	"github.com/millrace-data/millrace/internal/socket"
)

// authorize identifies the caller, acquires the dataset in the path, and rejects callers without
// the route's right.
func (g *Gateway) authorize(x *exchange) (err error) {
	if x.route.right == auth.None {
		return nil
	}
	x.refused = true
	if x.principal, err = g.identify(x); err != nil {
		return err
	}
	// Rejected requests count too: otherwise the limit would reveal which datasets exist.
	x.account = g.account(x)
	if wait := x.account.Request(); wait > 0 {
		return tooMany(wait, "these credentials exceed their limit of requests per second")
	}
	name, ofDataset := g.datasetName(x)
	if err := g.permit(x, x.principal, name, ofDataset); err != nil {
		return err
	}
	x.refused = false
	if !ofDataset {
		return nil
	}
	x.open = g.may(auth.Anonymous(), auth.Read, name)
	if err := g.acquire(x, name, x.generation()); err != nil {
		return err
	}
	x.log.dataset = cutTo(name, maxName)
	if !x.changes() {
		return nil
	}
	if err := g.cfg.Audit.Err(); err != nil {
		return &problem{
			Code: codeAudit, RetryAfter: time.Second, Cause: err,
			Detail: "the audit log cannot be written: the gateway refuses writes",
		}
	}
	return nil
}

// identify authenticates the caller. It rejects requests from disallowed origins and transports.
func (g *Gateway) identify(x *exchange) (auth.Principal, error) {
	if err := g.origin.Check(x.r); err != nil {
		return auth.Principal{}, err
	}
	if err := g.origin.CheckTransport(x.r); err != nil {
		return auth.Principal{}, err
	}
	credentials := auth.Credentials{Authorization: x.r.Header.Values("Authorization")}
	if x.r.TLS != nil && len(x.r.TLS.VerifiedChains) > 0 {
		credentials.Certificates = x.r.TLS.VerifiedChains[0]
	}
	if local := socket.LocalOf(x.r.Context()); local != nil {
		credentials.UID = local.UID
	}
	p, err := g.access.Authenticate(credentials)
	if errors.Is(err, auth.ErrNoKeys) {
		return p, fmt.Errorf("authenticate: %w", err)
	}
	if err != nil {
		return p, unauthenticated(`, error="invalid_token"`, err)
	}
	return p, nil
}

// permit rejects a principal that may not use the route, and invalid definitions of mixtures. Every
// caller may list the datasets, because the list has only those that the caller may read.
func (g *Gateway) permit(x *exchange, p auth.Principal, name string, ofDataset bool) error {
	if address.IsMixture(name) {
		if _, err := address.ParseMixture(name); err != nil {
			return err
		}
	}
	if !ofDataset && x.route.right == auth.Read || g.may(p, x.route.right, name) {
		return nil
	}
	return g.denied(x, p, name, ofDataset)
}

// errRevoked ends a long response whose caller has lost its rights.
var errRevoked = errors.New("the right to this response was revoked")

// permitAgain checks the caller's rights again, since they may end during a long response. It does
// not change x.
func (g *Gateway) permitAgain(x *exchange) error {
	p, err := g.identify(x)
	if err == nil {
		err = g.permit(x, p, x.dataset.Name(), true)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errRevoked, err)
	}
	return nil
}

// changes reports whether the request writes to the bucket or to shared caches.
func (x *exchange) changes() bool { return x.route.method == http.MethodPost }

// datasetName returns the name of the route's dataset. ok is false if the route has no dataset.
func (g *Gateway) datasetName(x *exchange) (string, bool) {
	if strings.HasPrefix(x.route.pattern, "/epoch/") {
		return g.standard(), true
	}
	return plainName(chi.URLParam(x.r, "dataset")), strings.Contains(x.route.pattern, "{dataset}")
}

// may reports whether a principal has a right on a dataset, which need not exist. A mixture
// requires read access to its sources, unless a grant covers them.
func (g *Gateway) may(p auth.Principal, right auth.Right, name string) bool {
	if address.IsMixture(name) {
		return g.mayMixture(p, right, name)
	}
	if !g.access.May(p, right, name) {
		return false
	}
	d, ok := g.datasets.Current(name)
	return !ok || d.parts == nil || g.access.GrantsSources(p, name) ||
		!slices.ContainsFunc(d.parts, func(source *dataset) bool { return !g.access.May(p, auth.Read, source.Name()) })
}

// denied returns the problem for a caller without a right. A caller that may not read a dataset
// must not learn whether it exists.
func (g *Gateway) denied(x *exchange, p auth.Principal, name string, ofDataset bool) error {
	readable := ofDataset && g.isServed(name) && g.may(p, auth.Read, name)
	switch {
	case g.cfg.Access == nil && x.route.right == auth.Admin:
		return forbidden("only processes on the gateway's machine may read this: start the gateway with --insecure-admin or with an --access file")
	case g.cfg.Access == nil:
		return forbidden("this gateway grants no caller the right %[1]q: start it with --allow %[1]s or with an --access file", x.route.right)
	case p.Anonymous() && !readable:
		return unauthenticated("", nil)
	case readable || !ofDataset:
		return forbidden("these credentials do not have the right %q", x.route.right)
	case strings.HasPrefix(x.route.pattern, "/epoch/"):
		return address.Refuse(address.NotFound, "these credentials have no right to the default dataset: see GET /v1/datasets")
	}
	return notServed(name)
}

func notServed(name string) error {
	return address.Refuse(address.NotFound, "dataset %.100q is not served: see GET /v1/datasets", name)
}

// unauthenticated returns the problem that requests credentials. fault is appended to the
// challenge.
func unauthenticated(fault string, cause error) *problem {
	p := &problem{
		Code: codeUnauthenticated, Cause: cause, Challenge: `Bearer realm="millrace"` + fault,
		Detail: "credentials required: send Authorization: Bearer TOKEN",
	}
	if cause != nil {
		p.Detail = "invalid credentials: unknown, expired, or not in the form Authorization: Bearer TOKEN"
	}
	return p
}

// account returns the account that limits a principal, or nil without limits.
func (g *Gateway) account(x *exchange) *admission.Account {
	limits := g.access.Limits(x.principal)
	if limits.Requests <= 0 && limits.Memory <= 0 {
		return nil
	}
	name := x.principal.Name
	if x.principal.Anonymous() {
		name += " " + origin.Network(g.origin.Caller(x.r))
	}
	a := &admission.Account{Callers: &g.callers, Name: name, Requests: limits.Requests}
	if limits.Memory > 0 {
		a.Memory = max(1, int64(limits.Memory*float64(g.cfg.Budget.Total())))
	}
	return a
}

func tooMany(wait time.Duration, detail string) *problem {
	return &problem{Code: codeTooManyRequests, RetryAfter: wait, Detail: detail}
}
