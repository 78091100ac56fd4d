package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/importance"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/gateway/admission"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/gateway/origin"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/objstore"
)

// The codes of the error table in docs/api.md.
const (
	codeInvalid           = "invalid_argument"
	codeNotFound          = "not_found"
	codeEndOfEpoch        = "end_of_epoch"
	codeGenerationGone    = "generation_gone"
	codeUnauthenticated   = "unauthenticated"
	codeForbidden         = "forbidden"
	codeMisdirected       = "misdirected_request"
	codeMediaType         = "unsupported_media_type"
	codeTooManyRequests   = "too_many_requests"
	codeAudit             = "audit_unavailable"
	codeIssuer            = "issuer_unavailable"
	codeMethodNotAllowed  = "method_not_allowed"
	codeNotImplemented    = "not_implemented"
	codePrecondition      = "precondition_failed"
	codeURITooLong        = "uri_too_long"
	codeNotAcceptable     = "not_acceptable"
	codeTooLarge          = "content_too_large"
	codeTimeout           = "request_timeout"
	codeConflict          = "conflict"
	codeTooManyEpochs     = "too_many_epochs"
	codeReloadRefused     = "reload_refused"
	codeAmbiguousKey      = "ambiguous_key"
	codeReadOnly          = "read_only"
	codeRange             = "range_not_satisfiable"
	codeBatchTooLarge     = "batch_too_large"
	codeOverloaded        = "overloaded"
	codeDraining          = "draining"
	codeStarting          = "starting"
	codeStoreUnavailable  = "store_unavailable"
	codeStoreTimeout      = "store_timeout"
	codeStoreInconsistent = "store_inconsistent"
	codeStoreDenied       = "store_denied"
	codeInternal          = "internal"
)

// problemPage describes every code under a heading of its own: what a problem's type leads to.
const problemPage = "https://github.com/millrace-data/millrace/blob/main/docs/errors.md#"

// title is what a code stands for, in the same words for every request.
func title(code string) string {
	return map[string]string{
		codeInvalid:           "The request is not valid",
		codeNotFound:          "There is no such thing here",
		codeEndOfEpoch:        "The epoch has fewer batches",
		codeGenerationGone:    "The generation is not kept any more",
		codeUnauthenticated:   "The request needs valid credentials",
		codeForbidden:         "The caller may not do this",
		codeMisdirected:       "The port does not serve this host",
		codeMediaType:         "The body has another media type",
		codeTooManyRequests:   "The caller is over its limit",
		codeIssuer:            "The issuer of the credentials cannot be reached",
		codeAudit:             "The audit log cannot be written",
		codeMethodNotAllowed:  "The path does not take this method",
		codeNotImplemented:    "The gateway does not know this method",
		codePrecondition:      "The resource is not the one that If-Match names",
		codeURITooLong:        "The URL is too long",
		codeNotAcceptable:     "The batch has no form that is accepted",
		codeTooLarge:          "The body is too large",
		codeTimeout:           "The request was not sent in time",
		codeConflict:          "Something else has been stored already",
		codeTooManyEpochs:     "Too many epochs have reports that were never frozen",
		codeReloadRefused:     "What is to be served cannot be read or opened",
		codeAmbiguousKey:      "Several shards have this key",
		codeReadOnly:          "The dataset's bucket takes no writes",
		codeRange:             "The range lies outside of the body",
		codeBatchTooLarge:     "The batch is larger than the memory for it",
		codeOverloaded:        "The gateway's memory is in use",
		codeDraining:          "The gateway is shutting down",
		codeStarting:          "The gateway has just started",
		codeStoreUnavailable:  "The object store cannot be reached",
		codeStoreTimeout:      "The object store is too slow",
		codeStoreInconsistent: "A stored object is not what the index says",
		codeStoreDenied:       "The object store refuses the gateway",
		codeInternal:          "Something went wrong inside the gateway",
	}[code]
}

// spread is between half and two and a half times d, so that those who were refused together do not come back together.
// Retry-After counts in seconds: a narrower range around one second would be the same second for all.
func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(2*d)
}

// statusClientGone is written to the log alone: nobody is left to read an answer.
const statusClientGone = 499

// problem is an error with the words that its user may read (RFC 9457). The cause is for the log only: it may
// name hosts and the bucket's keys.
type problem struct {
	Status     int
	Code       string
	Detail     string
	Retryable  bool
	RetryAfter time.Duration
	Challenge  string // unauthenticated: WWW-Authenticate

	Faults  []address.Fault // invalid_argument: everything that is wrong
	Batches *uint64         // end_of_epoch: how many there are
	Bytes   *uint64         // batch_too_large: the sum
	Limit   *int64          // batch_too_large, content_too_large: what it was held against
	Place   *place          // store_inconsistent: where
	Kept    *bool           // read_only: whether the report waits in the gateway's local log
	Shards  []string        // ambiguous_key: which have the key
	More    *bool           // ambiguous_key: whether further shards have it too
	Cause   error
}

// place is where in the dataset a store's object does not match the index.
type place struct {
	Object string `json:"object"`
	Shard  int    `json:"shard"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
}

func (p *problem) Error() string {
	if p.Cause != nil {
		return p.Code + ": " + p.Cause.Error()
	}
	return p.Code + ": " + p.Detail
}

func (p *problem) Unwrap() error { return p.Cause }

func invalid(format string, args ...any) *problem {
	return &problem{Status: http.StatusBadRequest, Code: codeInvalid, Detail: fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) *problem {
	return &problem{Status: http.StatusForbidden, Code: codeForbidden, Detail: fmt.Sprintf(format, args...)}
}

// overloaded asks the caller to come again, for a reason.
func overloaded(detail string) *problem {
	return &problem{Status: http.StatusServiceUnavailable, Code: codeOverloaded, Retryable: true, RetryAfter: time.Second, Detail: detail}
}

func tooLong(limit int64) *problem {
	return &problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge, Limit: &limit,
		Detail: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
}

// storeRow is one row of the error table: what the parts below report, and what a user gets.
type storeRow struct {
	cause      error
	status     int
	code       string
	detail     string
	retryable  bool
	retryAfter time.Duration
}

// storeRows is the error table for everything that the parts below report, and the inner rooms by a sentinel.
func storeRows() []storeRow {
	const bad = http.StatusBadGateway
	const inconsistent = "a stored object is not what the index says: "
	return []storeRow{
		{budget.ErrTooLarge, http.StatusBadRequest, codeBatchTooLarge, "no memory budget of this gateway can hold this batch", false, 0},
		{admission.ErrCrowded, http.StatusServiceUnavailable, codeOverloaded, admission.ErrCrowded.Error(), true, time.Second},
		{budget.ErrOverloaded, http.StatusServiceUnavailable, codeOverloaded, "the memory budget is in use", true, time.Second},
		{selection.ErrCorrupt, bad, codeStoreInconsistent, "a stored subset or quarantine is damaged", false, 0},
		{selection.ErrVersion, bad, codeStoreInconsistent, "a newer version wrote a stored subset or quarantine", false, 0},
		{importance.ErrNoSnapshot, http.StatusNotFound, codeNotFound, "there is no such snapshot of weights", false, 0},
		{importance.ErrTooMany, http.StatusConflict, codeTooManyEpochs, importance.ErrTooMany.Error(), false, 0},
		{importance.ErrNoReports, http.StatusNotFound, codeNotFound, "no losses were reported of this plan and epoch", false, 0},
		{importance.ErrCorrupt, bad, codeStoreInconsistent, "a stored report or snapshot of weights is damaged", false, 0},
		{importance.ErrVersion, bad, codeStoreInconsistent, "a newer version wrote a stored report or snapshot of weights", false, 0},
		{objstore.ErrChanged, bad, codeStoreInconsistent, inconsistent + "it has changed", false, 0},
		{objstore.ErrNotFound, bad, codeStoreInconsistent, inconsistent + "it is missing", false, 0},
		{objstore.ErrShort, bad, codeStoreInconsistent, inconsistent + "it is too short", false, 0},
		{chunkindex.ErrCorrupt, bad, codeStoreInconsistent, inconsistent + "its bytes do not match their digest", false, 0},
		{objstore.ErrDenied, bad, codeStoreDenied, "the store refuses the gateway's credentials", true, time.Second},
		{objstore.ErrThrottled, http.StatusServiceUnavailable, codeStoreUnavailable, "the store asks to slow down", true, time.Second},
		{objstore.ErrUnavailable, http.StatusServiceUnavailable, codeStoreUnavailable, "the store cannot be reached", true, time.Second},
		{objstore.ErrTimeout, http.StatusGatewayTimeout, codeStoreTimeout, "the store is too slow", true, time.Second},
		{
			auth.ErrNoKeys, http.StatusServiceUnavailable, codeIssuer,
			"the gateway has no keys of the issuer of these credentials, and tries to fetch them", true, 10 * time.Second,
		},
		{origin.ErrCrossSite, http.StatusForbidden, codeForbidden, origin.ErrCrossSite.Error(), false, 0},
		{origin.ErrProxy, http.StatusForbidden, codeForbidden, origin.ErrProxy.Error(), false, 0},
		{origin.ErrPlain, http.StatusForbidden, codeForbidden, origin.ErrPlain.Error(), false, 0},
		{origin.ErrHost, http.StatusMisdirectedRequest, codeMisdirected, origin.ErrHost.Error(), false, 0},
		{context.DeadlineExceeded, http.StatusGatewayTimeout, codeStoreTimeout, "the request's deadline has passed", true, time.Second},
	}
}

// problemOf turns any error into the one that its user gets. What no row knows is internal, and its detail stays in the log.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if refusal, ok := errors.AsType[*address.Refusal](err); ok {
		return refused(refusal)
	}
	if p := unstored(err); p != nil {
		return p
	}
	for _, row := range storeRows() {
		if !errors.Is(err, row.cause) {
			continue
		}
		p := &problem{
			Status: row.status, Code: row.code, Detail: row.detail,
			Retryable: row.retryable, RetryAfter: row.retryAfter, Cause: err,
		}
		var at *chunkindex.RangeError
		if row.code == codeStoreInconsistent && errors.As(err, &at) {
			p.Place = &place{Object: at.Key, Shard: at.Shard, Offset: at.Offset, Length: at.Length}
			p.Detail = fmt.Sprintf("%s (ADDRESS: the dataset's; bytes %d to %d)", chunkindex.Explain(at.Key, objstore.Kind(at.Err), "ADDRESS"), at.Offset, at.Offset+at.Length-1)
		}
		return p
	}
	return &problem{
		Status: http.StatusInternalServerError, Code: codeInternal, Retryable: true, Cause: err,
		Detail: "something went wrong inside the gateway; its log has the detail under this request id",
	}
}

// refused is the problem of a refusal.
func refused(r *address.Refusal) *problem {
	row := map[address.Kind]struct {
		status int
		code   string
	}{
		address.Invalid:       {http.StatusBadRequest, codeInvalid},
		address.NotFound:      {http.StatusNotFound, codeNotFound},
		address.EndOfEpoch:    {http.StatusNotFound, codeEndOfEpoch},
		address.TooLarge:      {http.StatusBadRequest, codeBatchTooLarge},
		address.NotAcceptable: {http.StatusNotAcceptable, codeNotAcceptable},
	}[r.Kind]
	return &problem{
		Status: row.status, Code: row.code, Detail: r.Detail,
		Faults: r.Faults, Batches: r.Batches, Bytes: r.Bytes, Limit: r.Limit, Cause: r.Cause,
	}
}

// unstored is the problem of losses that cannot be stored; nil for another error.
func unstored(err error) *problem {
	var conflict *importance.ConflictError
	var readOnly *importance.ReadOnlyError
	switch {
	case errors.Is(err, importance.ErrCorrupt): // whatever is wrong in a damaged object
		return nil
	case errors.As(err, &conflict):
		return &problem{Status: http.StatusConflict, Code: codeConflict, Detail: conflict.Error(), Cause: err}
	case errors.As(err, &readOnly):
		p := &problem{Status: http.StatusForbidden, Code: codeReadOnly, Kept: &readOnly.Kept, Cause: err}
		p.Detail = "the bucket takes no writes: what was reported is lost unless it is sent to a gateway that may write"
		if readOnly.Kept {
			p.Detail = "the bucket takes no writes: what was reported is kept in the local log of this gateway, on its disk"
		}
		return p
	case errors.Is(err, selection.ErrReadOnly):
		return &problem{Status: http.StatusForbidden, Code: codeReadOnly, Detail: "the bucket takes no writes: no subset can be stored", Cause: err}
	case errors.Is(err, importance.ErrReadOnly):
		return &problem{Status: http.StatusForbidden, Code: codeReadOnly, Detail: "the bucket takes no writes: no snapshot can be stored", Cause: err}
	}
	return nil
}

// problemBody is a problem as it is sent.
type problemBody struct {
	Type         string          `json:"type"`
	Title        string          `json:"title"`
	Status       int             `json:"status"`
	Detail       string          `json:"detail"`
	Instance     string          `json:"instance"`
	Code         string          `json:"code"`
	Retryable    bool            `json:"retryable"`
	RetryAfterMs int64           `json:"retry_after_ms,omitempty"`
	RequestID    string          `json:"request_id"`
	Faults       []address.Fault `json:"faults,omitempty"`
	Batches      *uint64         `json:"batches,omitempty"`
	Bytes        *uint64         `json:"bytes,omitempty"`
	Limit        *int64          `json:"limit,omitempty"`
	Kept         *bool           `json:"kept,omitempty"`
	Shards       []string        `json:"shards,omitempty"`
	More         *bool           `json:"more,omitempty"`
	*place
}

// sendProblem answers with a problem. Headers that described a body which is not coming are taken back.
func sendProblem(x *exchange, p *problem) {
	h := x.w.Header()
	for name := range h {
		switch name {
		case "Allow", "Content-Range", "Connection", "X-Content-Type-Options", "X-Request-Id", "Vary":
		default:
			h.Del(name)
		}
	}
	retryAfter := spread(p.RetryAfter)
	body, err := encodeJSON(problemBody{
		Type: problemPage + p.Code, Title: title(p.Code), Status: p.Status, Detail: p.Detail,
		Instance: "urn:millrace:request:" + x.id, Code: p.Code, Retryable: p.Retryable,
		RetryAfterMs: retryAfter.Milliseconds(), RequestID: x.id,
		Faults: p.Faults, Batches: p.Batches, Bytes: p.Bytes, Limit: p.Limit, Kept: p.Kept, Shards: p.Shards, More: p.More, place: p.Place,
	})
	if err != nil {
		panic(fmt.Sprintf("gateway: problem is not JSON: %v", err))
	}
	if p.Code == codeOverloaded {
		h.Set("Connection", "close") // the next attempt may reach another gateway
	}
	if p.Challenge != "" {
		h.Set("WWW-Authenticate", p.Challenge)
	}
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((retryAfter+time.Second-1)/time.Second), 10))
	}
	sendBytes(x, p.Status, "application/problem+json", body)
}
