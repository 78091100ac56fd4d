package client

import (
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

// Codes of the errors that a gateway reports.
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

// ErrDeadline is in the error of a request that no gateway answered within Config.Deadline.
var ErrDeadline = errors.New("no answer before the deadline")

// Faults of a transfer that the client finds by itself. Each is tried again before it is returned.
var (
	ErrShort    = errors.New("body ends early")
	ErrCRC      = errors.New("body does not match its CRC-32C")
	ErrProtocol = errors.New("not the answer of a gateway")
)

// Error is a gateway's refusal (RFC 9457), or the bare status of something in between.
type Error struct {
	Gateway    string        // base URL of the gateway that answered
	Status     int           // HTTP status
	Code       string        // empty when the answer was no problem document
	Title      string        // what the code means
	Detail     string        // what is wrong with this request
	RequestID  string        // names the request in the gateway's log
	Retryable  bool          // the same request may work later, or elsewhere
	RetryAfter time.Duration // not sooner than this
	Batches    uint64        // with end_of_epoch: how many batches there are; 0 if not said
	Shards     []string      // with ambiguous_key: shards that have the key, at most 100

	counted bool // Batches was said
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d", e.Gateway, e.Status)
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	} else {
		b.WriteString(" " + http.StatusText(e.Status))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	} else if e.Title != "" {
		b.WriteString(": " + e.Title)
	}
	if e.RequestID != "" {
		b.WriteString(" (request " + e.RequestID + ")")
	}
	if cure := e.Cure(); !strings.Contains(e.Detail, cure) { // a gateway may say it too
		b.WriteString("; " + cure)
	}
	return b.String()
}

// Cure says what to do about a refusal that the caller's credentials, address or generation cause; "" for other errors.
func (e *Error) Cure() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "give a token that the gateway knows by " + tokenFileVariable + " or " + tokenVariable
	case e.Status == http.StatusForbidden && e.Code != CodeReadOnly:
		return "the gateway's access file must grant the right: ask its operator"
	case e.Status == http.StatusMisdirectedRequest:
		return "use an address that the gateway knows, or name this one to it with --host"
	case e.Code == CodeGenerationGone:
		return "begin a new job without generation=, or restore its index and shards"
	case e.Code == CodeTooManyRequests:
		return "use fewer connections, or have the operator raise the limit in the access file"
	}
	return ""
}

// Is lets errors.Is compare by code: errors.Is(err, &client.Error{Code: client.CodeNotFound}).
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

// maxProblem bounds what is read of an error's body.
const maxProblem = 64 << 10

// readError turns an answer that is no success into an Error.
func readError(gateway string, resp *http.Response) *Error {
	e := &Error{Gateway: gateway, Status: resp.StatusCode, RequestID: printable(resp.Header.Get("X-Request-Id"))}
	e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	if e.Status >= 300 && e.Status < 400 {
		e.Detail = fmt.Sprintf("a redirect to %.200q, which no gateway sends: give the address of the gateways", resp.Header.Get("Location"))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var p problem
	typ, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if err != nil || strings.TrimSpace(typ) != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		// Something between us and the gateway answered: a proxy that is starting, full or has no backend.
		switch e.Status {
		case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			e.Retryable = true
		}
		return e
	}
	e.Code, e.Title, e.Detail, e.Retryable = printable(p.Code), printable(p.Title), printable(p.Detail), p.Retryable
	if p.RequestID != "" {
		e.RequestID = printable(p.RequestID)
	}
	if ms, err := strconv.ParseInt(p.RetryAfterMS.String(), 10, 64); err == nil && ms > 0 && ms < 1<<40 {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	if n, err := strconv.ParseUint(p.Batches.String(), 10, 64); err == nil {
		e.Batches, e.counted = n, true
	}
	e.Shards = p.Shards // as they are: a caller sends one of them back
	return e
}

// printable keeps a gateway's words fit for a terminal and a log: no control characters, no novel.
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

// retryAfter reads the header's form in seconds; the form with a date is not used by gateways.
func retryAfter(s string) time.Duration {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
