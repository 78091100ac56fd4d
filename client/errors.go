package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Codes in a gateway's problem documents.
const (
	CodeInvalidArgument   = "invalid_argument"
	CodeNotFound          = "not_found"
	CodeEndOfEpoch        = "end_of_epoch"
	CodeGenerationGone    = "generation_gone"
	CodeBatchTooLarge     = "batch_too_large"
	CodeConflict          = "conflict"
	CodeTooManyEpochs     = "too_many_epochs"
	CodeReloadRefused     = "reload_refused"
	CodeAmbiguousKey      = "ambiguous_key"
	CodeUnauthenticated   = "unauthenticated"
	CodeForbidden         = "forbidden"
	CodeReadOnly          = "read_only"
	CodeRequestTimeout    = "request_timeout"
	CodeURITooLong        = "uri_too_long"
	CodeMisdirected       = "misdirected_request"
	CodeTooManyRequests   = "too_many_requests"
	CodeOverloaded        = "overloaded"
	CodeDraining          = "draining"
	CodeStarting          = "starting"
	CodeStoreUnavailable  = "store_unavailable"
	CodeStoreTimeout      = "store_timeout"
	CodeStoreInconsistent = "store_inconsistent"
	CodeStoreDenied       = "store_denied"
	CodeInternal          = "internal"
)

// ErrDeadline is returned when no gateway responds to a request within Config.Deadline.
var ErrDeadline = errors.New("no answer before the deadline")

// Transfer errors that the client detects. It retries before it returns them.
var (
	ErrShort    = errors.New("body is truncated")
	ErrCRC      = errors.New("body does not match its CRC-32C")
	ErrProtocol = errors.New("not the response of a gateway")
)

// Error is a gateway's problem document (RFC 9457), or the bare status of a proxy in front of it.
type Error struct {
	Gateway    string        // base URL of the gateway that answered
	Status     int           // HTTP status
	Code       string        // empty without a problem document
	Title      string        // meaning of the code
	Detail     string        // description of this request's fault
	RequestID  string        // ID of the request in the gateway's log
	Retryable  bool          // a later attempt, or another gateway, may succeed
	RetryAfter time.Duration // minimum wait before a retry
	Batches    uint64        // with end_of_epoch: number of batches; 0 if the response omits it
	Shards     []string      // with ambiguous_key: at most 100 shards that have the key

	counted bool // the response has Batches
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d %s", e.Gateway, e.Status, cmp.Or(e.Code, http.StatusText(e.Status)))
	if detail := cmp.Or(e.Detail, e.Title); detail != "" {
		b.WriteString(": " + detail)
	}
	if e.RequestID != "" {
		b.WriteString(" (request " + e.RequestID + ")")
	}
	if cure := e.Cure(); !strings.Contains(e.Detail, cure) { // the gateway's detail may already contain it
		b.WriteString("; " + cure)
	}
	return b.String()
}

// Cure returns the remedy for an error that the caller's credentials, address or generation cause;
// "" for other errors.
func (e *Error) Cure() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "set a token that the gateway accepts in " + tokenFileVariable + " or " + tokenVariable
	case e.Status == http.StatusForbidden && e.Code != CodeReadOnly:
		return "the gateway's access file must grant the right: ask its operator"
	case e.Status == http.StatusMisdirectedRequest:
		return "use an address that the gateway accepts, or start the gateway with --host for this one"
	case e.Code == CodeGenerationGone:
		return "begin a new job without generation=, or restore its index and shards"
	case e.Code == CodeTooManyRequests:
		return "use fewer connections, or have the operator raise the limit in the access file"
	}
	return ""
}

// Is compares errors by code: errors.Is(err, &client.Error{Code: client.CodeNotFound}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code != "" && t.Code == e.Code
}

type problem struct {
	Title        string      `json:"title"`
	Detail       string      `json:"detail"`
	Code         string      `json:"code"`
	Retryable    bool        `json:"retryable"`
	RetryAfterMS json.Number `json:"retry_after_ms"`
	RequestID    string      `json:"request_id"`
	Batches      json.Number `json:"batches"`
	Shards       []string    `json:"shards"`
}

// maxProblem is the maximum number of bytes read from an error's body.
const maxProblem = 64 << 10

// readError converts an unsuccessful response into an Error.
func readError(gateway string, resp *http.Response) *Error {
	e := &Error{Gateway: gateway, Status: resp.StatusCode, RequestID: printable(resp.Header.Get("X-Request-Id"))}
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	if e.Status >= 300 && e.Status < 400 {
		e.Detail = fmt.Sprintf("got a redirect to %.200q, which gateways never send: use the address of a gateway", resp.Header.Get("Location"))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p problem
	typ, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if err != nil || strings.TrimSpace(typ) != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		// The response comes from a proxy that is starting, overloaded or without a backend.
		switch e.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			e.Retryable = true
		}
		return e
	}
	e.Code, e.Title, e.Detail, e.Retryable = printable(p.Code), printable(p.Title), printable(p.Detail), p.Retryable
	e.RequestID = cmp.Or(printable(p.RequestID), e.RequestID)
	if ms, err := strconv.ParseInt(p.RetryAfterMS.String(), 10, 64); err == nil && ms > 0 && ms < 1<<40 {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	if n, err := strconv.ParseUint(p.Batches.String(), 10, 64); err == nil {
		e.Batches, e.counted = n, true
	}
	e.Shards = p.Shards // unchanged, because a caller sends one of them in a request
	return e
}

// printable makes a gateway's text safe for terminals and logs: it replaces control characters and
// limits the length.
func printable(s string) string {
	const most = 4096
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > most {
			return -1
		}
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// retryAfter parses a Retry-After in seconds. Gateways do not send the date form.
func retryAfter(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
