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

// Codes of the error table in docs/api.md.
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

// problemPage documents each code under a heading, for the type member of problems.
const problemPage = "https://github.com/millrace-data/millrace/blob/main/docs/errors.md#"

// meaning is the status, retryability and title of a code.
type meaning struct {
	status    int
	retryable bool
	title     string
}

// meaningOf returns the meaning of a code; docs/errors.md has a section for each.
func meaningOf(code string) meaning {
	return map[string]meaning{
		codeInvalid:           {http.StatusBadRequest, false, "Invalid request"},
		codeNotFound:          {http.StatusNotFound, false, "Not found"},
		codeEndOfEpoch:        {http.StatusNotFound, false, "Batch past the end of the epoch"},
		codeGenerationGone:    {http.StatusNotFound, false, "Generation no longer available"},
		codeUnauthenticated:   {http.StatusUnauthorized, false, "Valid credentials required"},
		codeForbidden:         {http.StatusForbidden, false, "Permission denied"},
		codeMisdirected:       {http.StatusMisdirectedRequest, false, "Host not served on this port"},
		codeMediaType:         {http.StatusUnsupportedMediaType, false, "Unsupported media type"},
		codeTooManyRequests:   {http.StatusTooManyRequests, true, "Limit of the caller exceeded"},
		codeIssuer:            {http.StatusServiceUnavailable, true, "Identity provider unavailable"},
		codeAudit:             {http.StatusServiceUnavailable, true, "Audit log not writable"},
		codeMethodNotAllowed:  {http.StatusMethodNotAllowed, false, "Method not allowed on this path"},
		codeNotImplemented:    {http.StatusNotImplemented, false, "Unknown HTTP method"},
		codePrecondition:      {http.StatusPreconditionFailed, false, "ETag does not match If-Match"},
		codeURITooLong:        {http.StatusRequestURITooLong, false, "URL too long"},
		codeNotAcceptable:     {http.StatusNotAcceptable, false, "No acceptable format"},
		codeTooLarge:          {http.StatusRequestEntityTooLarge, false, "Request body too large"},
		codeTimeout:           {http.StatusRequestTimeout, true, "Request body timed out"},
		codeConflict:          {http.StatusConflict, false, "Conflicting loss already stored"},
		codeTooManyEpochs:     {http.StatusConflict, false, "Too many epochs with unfrozen reports"},
		codeReloadRefused:     {http.StatusConflict, false, "Reload failed"},
		codeAmbiguousKey:      {http.StatusConflict, false, "Key found in several shards"},
		codeReadOnly:          {http.StatusForbidden, false, "Bucket is read-only"},
		codeRange:             {http.StatusRequestedRangeNotSatisfiable, false, "Range outside the body"},
		codeBatchTooLarge:     {http.StatusBadRequest, false, "Batch exceeds the memory limit"},
		codeOverloaded:        {http.StatusServiceUnavailable, true, "Gateway out of memory"},
		codeDraining:          {http.StatusServiceUnavailable, true, "Gateway shutting down"},
		codeStarting:          {http.StatusServiceUnavailable, true, "Gateway starting"},
		codeStoreUnavailable:  {http.StatusServiceUnavailable, true, "Object store unavailable"},
		codeStoreTimeout:      {http.StatusGatewayTimeout, true, "Object store timed out"},
		codeStoreInconsistent: {http.StatusBadGateway, false, "Stored object does not match the index"},
		codeStoreDenied:       {http.StatusBadGateway, true, "Object store denied access"},
		codeInternal:          {http.StatusInternalServerError, true, "Internal error"},
	}[code]
}

// spread returns a random duration between d/2 and 2.5d, so that clients that were refused together
// do not retry together. Retry-After has a resolution of one second: a narrower range around one
// second would round to a single value.
func spread(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(2*d)
}

// statusClientGone appears only in the log: the client has closed the connection.
const statusClientGone = 499

// problem is an error with text for the caller (RFC 9457). Cause goes only to the log, because it
// may name hosts and bucket keys.
type problem struct {
	Code       string
	Detail     string
	RetryAfter time.Duration
	Challenge  string // unauthenticated: WWW-Authenticate

	Faults  []address.Fault // invalid_argument: all faults of the request
	Batches *uint64         // end_of_epoch: number of batches
	Bytes   *uint64         // batch_too_large: required memory
	Limit   *int64          // batch_too_large, content_too_large: the limit
	Place   *place          // store_inconsistent: location of the fault
	Kept    *bool           // read_only: whether the gateway stored the report in its local log
	Shards  []string        // ambiguous_key: shards that have the key
	More    *bool           // ambiguous_key: whether more shards have it
	Cause   error
}

// place is a location in a dataset where a stored object does not match the index.
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
	return &problem{Code: codeInvalid, Detail: fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) *problem {
	return &problem{Code: codeForbidden, Detail: fmt.Sprintf(format, args...)}
}

// overloaded returns a problem that asks the caller to retry.
func overloaded(detail string) *problem {
	return &problem{Code: codeOverloaded, RetryAfter: time.Second, Detail: detail}
}

func tooLong(limit int64) *problem {
	return &problem{
		Code: codeTooLarge, Limit: &limit,
		Detail: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
}

// storeRow maps an error of another package to a problem.
type storeRow struct {
	cause      error
	code       string
	detail     string
	retryAfter time.Duration
}

// storeRows is the error table for errors of other packages, identified by their sentinels.
func storeRows() []storeRow {
	const inconsistent = "a stored object does not match the index: "
	return []storeRow{
		{budget.ErrTooLarge, codeBatchTooLarge, "this batch is larger than the memory budget of this gateway", 0},
		{admission.ErrCrowded, codeOverloaded, admission.ErrCrowded.Error(), time.Second},
		{budget.ErrOverloaded, codeOverloaded, "the memory budget is in use", time.Second},
		{selection.ErrCorrupt, codeStoreInconsistent, "a stored subset or quarantine is damaged", 0},
		{selection.ErrVersion, codeStoreInconsistent, "a newer version wrote a stored subset or quarantine", 0},
		{importance.ErrNoSnapshot, codeNotFound, "no snapshot of weights has this digest", 0},
		{importance.ErrTooMany, codeTooManyEpochs, importance.ErrTooMany.Error(), 0},
		{importance.ErrNoReports, codeNotFound, "no losses were reported for this plan and epoch", 0},
		{importance.ErrCorrupt, codeStoreInconsistent, "a stored report or snapshot of weights is damaged", 0},
		{importance.ErrVersion, codeStoreInconsistent, "a newer version wrote a stored report or snapshot of weights", 0},
		{objstore.ErrChanged, codeStoreInconsistent, inconsistent + "it has changed", 0},
		{objstore.ErrNotFound, codeStoreInconsistent, inconsistent + "it is missing", 0},
		{objstore.ErrShort, codeStoreInconsistent, inconsistent + "it is too short", 0},
		{chunkindex.ErrCorrupt, codeStoreInconsistent, inconsistent + "its bytes do not match their digest", 0},
		{objstore.ErrDenied, codeStoreDenied, "the store refuses the gateway's credentials", time.Second},
		{objstore.ErrThrottled, codeStoreUnavailable, "the store limits the rate of requests", time.Second},
		{objstore.ErrUnavailable, codeStoreUnavailable, "the store cannot be reached", time.Second},
		{objstore.ErrTimeout, codeStoreTimeout, "the store is too slow", time.Second},
		{
			auth.ErrNoKeys, codeIssuer,
			"the gateway has not yet fetched the keys of the issuer of these credentials: try again", 10 * time.Second,
		},
		{origin.ErrCrossSite, codeForbidden, origin.ErrCrossSite.Error(), 0},
		{origin.ErrProxy, codeForbidden, origin.ErrProxy.Error(), 0},
		{origin.ErrPlain, codeForbidden, origin.ErrPlain.Error(), 0},
		{origin.ErrHost, codeMisdirected, origin.ErrHost.Error(), 0},
		{context.DeadlineExceeded, codeStoreTimeout, "the request's deadline has passed", time.Second},
	}
}

// problemOf converts any error into a problem. An error without a row becomes "internal", and its
// text goes only to the log.
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
			Code: row.code, Detail: row.detail, RetryAfter: row.retryAfter, Cause: err,
		}
		if large, ok := errors.AsType[*budget.TooLargeError](err); ok {
			p.Bytes, p.Limit = new(uint64(large.Wanted)), &large.Total
			p.Detail = fmt.Sprintf("the plan of this request takes %d bytes of memory: --cache-size, which is %d bytes, must be larger than that", large.Wanted, large.Total)
		}
		var at *chunkindex.RangeError
		if row.code == codeStoreInconsistent && errors.As(err, &at) {
			p.Place = &place{Object: at.Key, Shard: at.Shard, Offset: at.Offset, Length: at.Length}
			p.Detail = fmt.Sprintf("%s (ADDRESS: the dataset's; bytes %d to %d)", chunkindex.Explain(at.Key, objstore.Kind(at.Err), "ADDRESS"), at.Offset, at.Offset+at.Length-1)
		}
		return p
	}
	return &problem{
		Code: codeInternal, Cause: err,
		Detail: "internal error: see this request ID in the gateway's log",
	}
}

// refused converts a refusal into a problem.
func refused(r *address.Refusal) *problem {
	code := map[address.Kind]string{
		address.Invalid:       codeInvalid,
		address.NotFound:      codeNotFound,
		address.EndOfEpoch:    codeEndOfEpoch,
		address.TooLarge:      codeBatchTooLarge,
		address.NotAcceptable: codeNotAcceptable,
	}[r.Kind]
	return &problem{
		Code: code, Detail: r.Detail, Faults: r.Faults, Batches: r.Batches, Bytes: r.Bytes, Limit: r.Limit, Cause: r.Cause,
	}
}

// unstored returns the problem for losses that cannot be stored, or nil for other errors.
func unstored(err error) *problem {
	var conflict *importance.ConflictError
	var readOnly *importance.ReadOnlyError
	switch {
	case errors.Is(err, importance.ErrCorrupt): // a damaged object may cause other errors too
		return nil
	case errors.As(err, &conflict):
		return &problem{Code: codeConflict, Detail: conflict.Error(), Cause: err}
	case errors.As(err, &readOnly):
		p := &problem{Code: codeReadOnly, Kept: &readOnly.Kept, Cause: err}
		p.Detail = "the bucket is read-only: the reports are lost unless you send them to a gateway that can write"
		if readOnly.Kept {
			p.Detail = "the bucket is read-only: the reports are stored only in the local log of this gateway"
		}
		return p
	case errors.Is(err, selection.ErrReadOnly):
		return &problem{Code: codeReadOnly, Detail: "the bucket is read-only: no subset can be stored", Cause: err}
	case errors.Is(err, importance.ErrReadOnly):
		return &problem{Code: codeReadOnly, Detail: "the bucket is read-only: no snapshot can be stored", Cause: err}
	}
	return nil
}

// problemBody is the JSON form of a problem.
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

// sendProblem sends a problem. It removes headers that describe another body.
func sendProblem(x *exchange, p *problem) {
	h := x.w.Header()
	for name := range h {
		switch name {
		case "Allow", "Content-Range", "Connection", "X-Content-Type-Options", "X-Request-Id", "Vary":
		default:
			h.Del(name)
		}
	}
	retryAfter, m := spread(p.RetryAfter), meaningOf(p.Code)
	body, err := encodeJSON(problemBody{
		Type: problemPage + p.Code, Title: m.title, Status: m.status, Detail: p.Detail,
		Instance: "urn:millrace:request:" + x.id, Code: p.Code, Retryable: m.retryable,
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
	sendBytes(x, m.status, "application/problem+json", body)
}
