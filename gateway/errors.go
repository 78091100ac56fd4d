package gateway

import (
	"cmp"
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

// code is a row of the error table in docs/errors.md.
type code struct {
	name      string
	status    int
	retryable bool
	title     string
}

// The codes. docs/errors.md has a section for each.
var (
	codeInvalid           = code{"invalid_argument", http.StatusBadRequest, false, "Invalid request"}
	codeNotFound          = code{"not_found", http.StatusNotFound, false, "Not found"}
	codeEndOfEpoch        = code{"end_of_epoch", http.StatusNotFound, false, "Batch past the end of the epoch"}
	codeGenerationGone    = code{"generation_gone", http.StatusNotFound, false, "Generation no longer available"}
	codeUnauthenticated   = code{"unauthenticated", http.StatusUnauthorized, false, "Valid credentials required"}
	codeForbidden         = code{"forbidden", http.StatusForbidden, false, "Permission denied"}
	codeMisdirected       = code{"misdirected_request", http.StatusMisdirectedRequest, false, "Host not served on this port"}
	codeMediaType         = code{"unsupported_media_type", http.StatusUnsupportedMediaType, false, "Unsupported media type"}
	codeTooManyRequests   = code{"too_many_requests", http.StatusTooManyRequests, true, "Limit of the caller exceeded"}
	codeAudit             = code{"audit_unavailable", http.StatusServiceUnavailable, true, "Audit log not writable"}
	codeIssuer            = code{"issuer_unavailable", http.StatusServiceUnavailable, true, "Identity provider unavailable"}
	codeMethodNotAllowed  = code{"method_not_allowed", http.StatusMethodNotAllowed, false, "Method not allowed on this path"}
	codeNotImplemented    = code{"not_implemented", http.StatusNotImplemented, false, "Unknown HTTP method"}
	codePrecondition      = code{"precondition_failed", http.StatusPreconditionFailed, false, "ETag does not match If-Match"}
	codeURITooLong        = code{"uri_too_long", http.StatusRequestURITooLong, false, "URL too long"}
	codeNotAcceptable     = code{"not_acceptable", http.StatusNotAcceptable, false, "No acceptable format"}
	codeTooLarge          = code{"content_too_large", http.StatusRequestEntityTooLarge, false, "Request body too large"}
	codeTimeout           = code{"request_timeout", http.StatusRequestTimeout, true, "Request body timed out"}
	codeConflict          = code{"conflict", http.StatusConflict, false, "Conflicting loss already stored"}
	codeTooManyEpochs     = code{"too_many_epochs", http.StatusConflict, false, "Too many epochs with unfrozen reports"}
	codeReloadRefused     = code{"reload_refused", http.StatusConflict, false, "Reload failed"}
	codeAmbiguousKey      = code{"ambiguous_key", http.StatusConflict, false, "Key found in several shards"}
	codeReadOnly          = code{"read_only", http.StatusForbidden, false, "Bucket is read-only"}
	codeRange             = code{"range_not_satisfiable", http.StatusRequestedRangeNotSatisfiable, false, "Range outside the body"}
	codeBatchTooLarge     = code{"batch_too_large", http.StatusBadRequest, false, "Batch exceeds the memory limit"}
	codeOverloaded        = code{"overloaded", http.StatusServiceUnavailable, true, "Gateway out of memory"}
	codeDraining          = code{"draining", http.StatusServiceUnavailable, true, "Gateway shutting down"}
	codeStarting          = code{"starting", http.StatusServiceUnavailable, true, "Gateway starting"}
	codeStoreUnavailable  = code{"store_unavailable", http.StatusServiceUnavailable, true, "Object store unavailable"}
	codeStoreTimeout      = code{"store_timeout", http.StatusGatewayTimeout, true, "Object store timed out"}
	codeStoreInconsistent = code{"store_inconsistent", http.StatusBadGateway, false, "Stored object does not match the index"}
	codeStoreDenied       = code{"store_denied", http.StatusBadGateway, true, "Object store denied access"}
	codeInternal          = code{"internal", http.StatusInternalServerError, true, "Internal error"}
)

// problemPage documents each code under a heading, for the type member of problems.
const problemPage = "https://github.com/millrace-data/millrace/blob/main/docs/errors.md#"

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
	Code       code
	Detail     string
	RetryAfter time.Duration
	Challenge  string // unauthenticated: WWW-Authenticate
	Cause      error

	figures
}

// figures are the members of a problem that only some codes have.
type figures struct {
	Faults  []address.Fault `json:"faults,omitempty"`  // invalid_argument: all faults of the request
	Batches *uint64         `json:"batches,omitempty"` // end_of_epoch: number of batches
	Bytes   *uint64         `json:"bytes,omitempty"`   // batch_too_large: required memory
	Limit   *int64          `json:"limit,omitempty"`   // batch_too_large, content_too_large: the limit
	Kept    *bool           `json:"kept,omitempty"`    // read_only: whether the gateway stored the report in its local log
	Shards  []string        `json:"shards,omitempty"`  // ambiguous_key: shards that have the key
	More    *bool           `json:"more,omitempty"`    // ambiguous_key: whether more shards have it
	*place                  // store_inconsistent: location of the fault
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
		return p.Code.name + ": " + p.Cause.Error()
	}
	return p.Code.name + ": " + p.Detail
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
	return &problem{Code: codeTooLarge, Detail: fmt.Sprintf("the body is larger than %d bytes", limit), figures: figures{Limit: &limit}}
}

// storeRow maps an error of another package to a problem.
type storeRow struct {
	cause      error
	code       code
	detail     string // "": the text of cause
	retryAfter time.Duration
}

// storeRows is the error table for errors of other packages, identified by their sentinels.
func storeRows() []storeRow {
	const inconsistent = "a stored object does not match the index: "
	return []storeRow{
		{selection.ErrCorrupt, codeStoreInconsistent, "a stored subset, quarantine or cost table is damaged, which the gateway's log names: remove this object, and store it again", 0}, // before its consequences
		{importance.ErrCorrupt, codeStoreInconsistent, "a stored report or snapshot of weights is damaged", 0},
		{importance.ErrConflict, codeConflict, "", 0},
		{importance.ErrReadOnly, codeReadOnly, "the bucket is read-only: no snapshot can be stored", 0},
		{selection.ErrReadOnly, codeReadOnly, "the bucket is read-only: no subset or schedule can be stored", 0},
		{budget.ErrTooLarge, codeBatchTooLarge, "this batch is larger than the memory budget of this gateway", 0},
		{admission.ErrCrowded, codeOverloaded, "", time.Second},
		{budget.ErrOverloaded, codeOverloaded, "the memory budget is in use", time.Second},
		{selection.ErrVersion, codeStoreInconsistent, "a newer version wrote a stored subset or quarantine", 0},
		{importance.ErrNoSnapshot, codeNotFound, "no snapshot of weights has this digest", 0},
		{importance.ErrTooMany, codeTooManyEpochs, "", 0},
		{importance.ErrNoReports, codeNotFound, "no losses were reported for this plan and epoch", 0},
		{importance.ErrVersion, codeStoreInconsistent, "a newer version wrote a stored report or snapshot of weights", 0},
		{objstore.ErrChanged, codeStoreInconsistent, inconsistent + "it has changed", 0},
		{objstore.ErrNotFound, codeStoreInconsistent, inconsistent + "it is missing", 0},
		{objstore.ErrShort, codeStoreInconsistent, inconsistent + "it is too short", 0},
		{chunkindex.ErrCorrupt, codeStoreInconsistent, inconsistent + "its bytes do not match their digest", 0},
		{objstore.ErrDenied, codeStoreDenied, "the store refuses the gateway's credentials", time.Second},
		{objstore.ErrThrottled, codeStoreUnavailable, "the store limits the rate of requests", time.Second},
		{objstore.ErrUnavailable, codeStoreUnavailable, "the store cannot be reached", time.Second},
		{objstore.ErrTimeout, codeStoreTimeout, "the store is too slow", time.Second},
		{auth.ErrNoKeys, codeIssuer, "the gateway has not yet fetched the keys of the issuer of these credentials: try again", 10 * time.Second},
		{origin.ErrCrossSite, codeForbidden, "", 0},
		{origin.ErrProxy, codeForbidden, "", 0},
		{origin.ErrPlain, codeForbidden, "", 0},
		{origin.ErrHost, codeMisdirected, "", 0},
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
	for _, row := range storeRows() {
		if !errors.Is(err, row.cause) {
			continue
		}
		p := &problem{Code: row.code, Detail: cmp.Or(row.detail, row.cause.Error()), RetryAfter: row.retryAfter, Cause: err}
		p.specify(err)
		return p
	}
	return &problem{
		Code: codeInternal, Cause: err,
		Detail: "internal error: see this request ID in the gateway's log",
	}
}

// specify adds the figures of errors with a type of their own.
func (p *problem) specify(err error) {
	var large *budget.TooLargeError
	var at *chunkindex.RangeError
	var conflict *importance.ConflictError
	var readOnly *importance.ReadOnlyError
	switch {
	case errors.As(err, &large):
		p.Bytes, p.Limit = new(uint64(large.Wanted)), &large.Total
		p.Detail = fmt.Sprintf("this request takes %d bytes of memory: --cache-size, which is %d bytes, must be larger than that", large.Wanted, large.Total)
	case p.Code == codeStoreInconsistent && errors.As(err, &at):
		p.place = &place{Object: at.Key, Shard: at.Shard, Offset: at.Offset, Length: at.Length}
		p.Detail = fmt.Sprintf("%s (ADDRESS: the dataset's; bytes %d to %d)", chunkindex.Explain(at.Key, objstore.Kind(at.Err), "ADDRESS"), at.Offset, at.Offset+at.Length-1)
	case p.Code == codeConflict && errors.As(err, &conflict):
		p.Detail = conflict.Error()
	case p.Code == codeReadOnly && errors.As(err, &readOnly):
		p.Kept, p.Detail = &readOnly.Kept, "the bucket is read-only: the reports are lost unless you send them to a gateway that can write"
		if readOnly.Kept {
			p.Detail = "the bucket is read-only: the reports are stored only in the local log of this gateway"
		}
	}
}

// refused converts a refusal into a problem.
func refused(r *address.Refusal) *problem {
	of := map[address.Kind]code{
		address.Invalid:       codeInvalid,
		address.NotFound:      codeNotFound,
		address.EndOfEpoch:    codeEndOfEpoch,
		address.TooLarge:      codeBatchTooLarge,
		address.NotAcceptable: codeNotAcceptable,
	}[r.Kind]
	return &problem{
		Code: of, Detail: r.Detail, Cause: r.Cause, figures: figures{Faults: r.Faults, Batches: r.Batches, Bytes: r.Bytes, Limit: r.Limit},
	}
}

// problemBody is the JSON form of a problem.
type problemBody struct {
	Type         string `json:"type"`
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail"`
	Instance     string `json:"instance"`
	Code         string `json:"code"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty"`
	RequestID    string `json:"request_id"`
	figures
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
	retryAfter := spread(p.RetryAfter)
	body, err := encodeJSON(problemBody{
		Type: problemPage + p.Code.name, Title: p.Code.title, Status: p.Code.status, Detail: p.Detail,
		Instance: "urn:millrace:request:" + x.id, Code: p.Code.name, Retryable: p.Code.retryable,
		RetryAfterMs: retryAfter.Milliseconds(), RequestID: x.id, figures: p.figures,
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
	sendBytes(x, p.Code.status, "application/problem+json", body)
}
