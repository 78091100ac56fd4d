package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

var errReset = errors.New("reset")

// refusal is an error response of a gateway with a Retry-After.
func refusal(status int, code string, retryable bool, wait time.Duration) error {
	return fmt.Errorf("wrapped: %w", &Error{Status: status, Code: code, Retryable: retryable, RetryAfter: wait})
}

func notListening(errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
}

// TestTally_EndsWithAFinalAnswer checks the results of attempts, round by round. Only the last
// result is final.
func TestTally_EndsWithAFinalAnswer(t *testing.T) {
	internal, unknown := refusal(500, CodeInternal, true, 0), refusal(404, CodeNotFound, false, 0)
	gone := refusal(404, CodeGenerationGone, false, 0)
	crc, protocol := fmt.Errorf("x: %w", ErrCRC), fmt.Errorf("x: %w", ErrProtocol)
	for name, c := range map[string]struct {
		gateways int
		rounds   [][]error
		want     error // returned error; nil: no result is final
	}{
		"refused for good":            {2, [][]error{{refusal(400, CodeInvalidArgument, false, 0)}}, &Error{Code: CodeInvalidArgument}},
		"refused for now":             {1, [][]error{{refusal(503, CodeOverloaded, true, 0)}, {refusal(503, CodeOverloaded, true, 0)}, {refusal(503, CodeOverloaded, true, 0)}}, nil},
		"internal once":               {1, [][]error{{internal}}, nil},
		"internal once, not to retry": {1, [][]error{{refusal(500, CodeInternal, false, 0)}}, nil},
		"internal twice":              {2, [][]error{{internal, errReset}, {internal}}, &Error{Code: CodeInternal}},
		"connections":                 {1, [][]error{{errReset}, {errReset}, {errReset}, {errReset}, {errReset}}, nil},
		"three damaged":               {1, [][]error{{crc}, {protocol}, {crc}}, nil},
		"four damaged":                {1, [][]error{{crc}, {protocol}, {crc}, {protocol}}, ErrProtocol},
		"one damaged by each":         {5, [][]error{{crc, crc, crc, crc, crc}}, ErrCRC},
		"unknown to one":              {2, [][]error{{unknown, errReset}, {unknown, errReset}}, nil},
		"unknown to both":             {2, [][]error{{unknown, errReset}, {unknown, unknown}}, &Error{Code: CodeNotFound}},
		"gone says more":              {2, [][]error{{gone, unknown}}, &Error{Code: CodeGenerationGone}},
		"gone is heard of later":      {2, [][]error{{unknown, gone}}, &Error{Code: CodeGenerationGone}},
		"unauthenticated":             {1, [][]error{{refusal(401, CodeUnauthenticated, false, 0)}}, &Error{Code: CodeUnauthenticated}},
		"redirect":                    {2, [][]error{{refusal(302, "x", false, 0), errReset}}, nil},
		"end of the epoch":            {2, [][]error{{refusal(404, CodeEndOfEpoch, false, 0)}}, &Error{Code: CodeEndOfEpoch}},
		"absent, then refused":        {2, [][]error{{unknown, refusal(400, CodeInvalidArgument, false, 0)}}, &Error{Code: CodeInvalidArgument}},
	} {
		var tl tally
		var got error
		for i, round := range c.rounds {
			tl.begin(c.gateways)
			for j, err := range round {
				final := tl.note(err)
				if last := i == len(c.rounds)-1 && j == len(round)-1; final != (last && c.want != nil) {
					t.Errorf("%s: answer %d of round %d is final: %t", name, j, i, final)
				}
				if final {
					got = tl.final(err)
				}
			}
		}
		if !errors.Is(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestTally_CountsARound checks the number of gateways that refuse connections, and the shortest
// Retry-After, where a gateway without one counts as 0.
func TestTally_CountsARound(t *testing.T) {
	busy := func(wait time.Duration) error { return refusal(503, CodeOverloaded, true, wait) }
	for name, c := range map[string]struct {
		answers []error
		refused int
		pause   time.Duration
	}{
		"the shorter first": {[]error{busy(2 * time.Second), busy(3 * time.Second)}, 0, 2 * time.Second},
		"the shorter last":  {[]error{busy(3 * time.Second), busy(2 * time.Second)}, 0, 2 * time.Second},
		"far too long":      {[]error{busy(time.Hour)}, 0, maxRetryAfter},
		"a port":            {[]error{busy(time.Second), notListening(syscall.ECONNREFUSED)}, 1, 0},
		"a socket":          {[]error{notListening(syscall.ENOENT), busy(time.Second)}, 1, 0},
		"other faults":      {[]error{notListening(syscall.EHOSTUNREACH), &net.OpError{Op: "read", Err: syscall.ECONNREFUSED}, syscall.ECONNREFUSED, syscall.ENOENT, errReset}, 0, 0},
		"damaged":           {[]error{fmt.Errorf("%w: %w", ErrProtocol, notListening(syscall.ECONNREFUSED))}, 0, 0},
	} {
		var tl tally
		for range 2 { // begin resets the counters of a round
			tl.begin(9)
			for _, err := range c.answers {
				tl.note(err)
			}
			if tl.refused != c.refused || tl.pause != c.pause || tl.asked != len(c.answers) || tl.absent != 0 || tl.absence != nil {
				t.Errorf("%s: got %+v, want %d refused and a pause of %v", name, tl, c.refused, c.pause)
			}
			if last := c.answers[len(c.answers)-1]; tl.fault != last {
				t.Errorf("%s: got %v as the last fault, want %v", name, tl.fault, last)
			}
		}
	}
}

// TestGiveUp_NamesFaultsOnceTimeIsOver: after the deadline the error contains the faults. If the
// caller cancels, it contains only the cancellation.
func TestGiveUp_NamesFaultsOnceTimeIsOver(t *testing.T) {
	live := t.Context()
	canceled, cancel := context.WithCancel(live)
	cancel()
	over, end := context.WithTimeoutCause(live, -time.Second, ErrDeadline)
	defer end()
	unknown := refusal(404, CodeNotFound, false, 0)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		t    tally
		want string
	}{
		"the pause would be too long": {live, errReset, tally{fault: errReset}, "no answer before the deadline: last error: reset"},
		"over in an attempt":          {over, context.DeadlineExceeded, tally{fault: errReset}, "no answer before the deadline: last error: reset"},
		"over, by its cause":          {over, ErrDeadline, tally{fault: errReset}, "no answer before the deadline: last error: reset"},
		"over in the first attempt":   {over, context.DeadlineExceeded, tally{}, "no answer before the deadline"},
		"over after a fault":          {over, errReset, tally{fault: errReset}, "no answer before the deadline: last error: reset"},
		"only absence":                {over, context.DeadlineExceeded, tally{absence: unknown}, "no answer before the deadline: last error: " + unknown.Error()},
		"absence last":                {over, unknown, tally{absence: unknown, fault: errReset}, "no answer before the deadline: last error: reset; error of another gateway: " + unknown.Error()},
		"a fault last":                {live, errReset, tally{absence: unknown, fault: errReset}, "no answer before the deadline: last error: reset; error of another gateway: " + unknown.Error()},
		"canceled":                    {canceled, context.Canceled, tally{fault: errReset}, "context canceled"},
		"canceled after a fault":      {canceled, errReset, tally{fault: errReset}, "context canceled: last error: reset"},
	} {
		err := giveUp(c.ctx, c.err, &c.t)
		if err.Error() != c.want {
			t.Errorf("%s: got %q, want %q", name, err, c.want)
		}
		if strings.Contains(c.want, "reset") && !errors.Is(err, errReset) || strings.Contains(c.want, "another") && !errors.Is(err, &Error{Code: CodeNotFound}) {
			t.Errorf("%s: got %v, want every fault in it", name, err)
		}
	}
}

// TestPassOver_RestsOnlyGatewaysThatAreAtFault checks which errors make the client avoid a gateway,
// and for how long.
func TestPassOver_RestsOnlyGatewaysThatAreAtFault(t *testing.T) {
	for _, c := range []struct {
		err    error
		passed bool
		wait   time.Duration
	}{
		{errReset, true, 0}, {ErrCRC, true, 0},
		{refusal(503, CodeDraining, true, time.Second), true, time.Second},
		{refusal(503, CodeOverloaded, true, time.Hour), true, maxRetryAfter},
		{refusal(429, CodeTooManyRequests, true, time.Second), true, time.Second},
		{refusal(404, CodeNotFound, false, 0), true, 0}, {refusal(401, CodeUnauthenticated, false, 0), true, 0}, {refusal(302, "", false, 0), true, 0},
		{refusal(399, "", false, 0), true, 0}, {refusal(500, "", true, time.Second), true, time.Second}, {refusal(502, "", true, 0), true, 0},
		{refusal(400, "", false, 0), false, 0}, {refusal(499, "", false, time.Second), false, 0},
		{refusal(404, CodeEndOfEpoch, false, 0), false, 0}, {refusal(500, CodeInternal, true, time.Second), false, 0},
		{refusal(503, CodeStoreUnavailable, true, time.Second), false, 0}, {refusal(403, CodeForbidden, false, 0), false, 0},
	} {
		if wait, passed := passOver(c.err); passed != c.passed || wait != c.wait {
			t.Errorf("%v: got %t, %v, want %t, %v", c.err, passed, wait, c.passed, c.wait)
		}
	}
}

// TestReadError_TakesWhatAProblemSays checks that readError uses the members of a problem document,
// within bounds, and of no other body.
func TestReadError_TakesWhatAProblemSays(t *testing.T) {
	const problem = "application/problem+json"
	for _, c := range []struct {
		kind, body, after string
		want              Error
	}{
		{problem, `{"code":"overloaded","title":"t","detail":"d\u0007","retryable":true,"retry_after_ms":1500,"request_id":"b","batches":7,"shards":["a\u0007"]}`, "9",
			Error{Code: "overloaded", Title: "t", Detail: "d ", Retryable: true, RetryAfter: 1500 * time.Millisecond, RequestID: "b", Batches: 7, counted: true, Shards: []string{"a\a"}}},
		{problem + "; charset=utf-8", `{"code":"x"}`, "9", Error{Code: "x", RetryAfter: 9 * time.Second, RequestID: "a"}},
		{problem, `{"code":"x","retry_after_ms":0,"batches":0}`, "", Error{Code: "x", RequestID: "a", counted: true}},
		{problem, `{"code":"x","retry_after_ms":-1,"batches":-1}`, "-9", Error{Code: "x", RequestID: "a"}},
		{problem, `{"code":"x","retry_after_ms":1099511627775}`, "", Error{Code: "x", RequestID: "a", RetryAfter: 1099511627775 * time.Millisecond}},
		{problem, `{"code":"x","retry_after_ms":1099511627776}`, "2147483648", Error{Code: "x", RequestID: "a"}},
		{problem, `{"code":"x"`, "2147483647", Error{RequestID: "a", Retryable: true, RetryAfter: 2147483647 * time.Second}},
		{problem, `{"code":"` + strings.Repeat("x", maxProblem) + `"}`, "soon", Error{RequestID: "a", Retryable: true}},
		{"application/json", `{"code":"x"}`, "", Error{RequestID: "a", Retryable: true}},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", c.kind)
		w.Header().Set("X-Request-Id", "a")
		w.Header().Set("Retry-After", c.after)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, c.body)
		c.want.Gateway, c.want.Status = "gw", http.StatusServiceUnavailable
		if got := readError("gw", w.Result()); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%.60s: got %+v, want %+v", c.body, got, c.want)
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Location", strings.Repeat("x", 300))
	w.WriteHeader(http.StatusFound)
	if got := readError("gw", w.Result()); got.Retryable || !got.elsewhere() || !strings.Contains(got.Detail, `"`+strings.Repeat("x", 200)+`"`) {
		t.Errorf("a redirect: got %+v", got)
	}
}
