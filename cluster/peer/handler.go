package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/loglimit"
	"github.com/millrace-data/millrace/internal/sending"
	"github.com/millrace-data/millrace/internal/tracing"
)

const (
	waitGrace = 250 * time.Millisecond
	firstSign = 10 * time.Millisecond // delay before the first sign of life; an answer from memory needs no sign

	// Memory that a request uses while it is answered, per byte of its body. The 8 bytes of a
	// range in a question become 128 in the lists of query, batch, segments and samples. A
	// decoded JSON value is larger than its text.
	queryTimes, jsonTimes = 16, 4
)

// ServeHTTP answers one request. After the first byte of an answer, errors cause a panic with
// http.ErrAbortHandler, which breaks the connection, so an incomplete answer never looks complete.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	out := sending.New(w, r, time.Now(), func() bool { return false }, &s.records)
	out.Stall = writeStall
	err := s.route(out, r)
	if err == nil {
		return
	}
	refused := refusalOf(err)
	s.logRefusal(r, refused, err)
	brief(out, refused.Status, contentProblem, map[string]any{
		"type": "urn:millrace:error:" + refused.Code, "title": http.StatusText(refused.Status), "status": refused.Status,
		"detail": refused.Detail, "code": refused.Code,
	})
}

// brief answers with a JSON value.
func brief(out *sending.Writer, status int, content string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("peer: not JSON: %v", err))
	}
	begin(out, status, content, int64(len(text)))
	out.MustWrite(text)
}

func begin(out *sending.Writer, status int, content string, length int64) {
	h := out.Header()
	h.Set("Content-Type", content)
	h.Set("Content-Length", strconv.FormatInt(length, 10))
	h.Set("Cache-Control", "no-store")
	out.WriteHeader(status)
}

// route checks the asker and returns the handler's result.
func (s *Server) route(out *sending.Writer, r *http.Request) error {
	handle := map[string]func(*sending.Writer, *http.Request) error{readPath: s.read, helloPath: s.hello}[r.URL.Path]
	switch got := r.Header.Values(VersionHeader); {
	case handle == nil:
		return refuse(CodePeerPort, "this is the peer port, on which gateways ask each other; clients use the data port (--listen)")
	case r.Method != http.MethodPost:
		return refuse(CodeInvalid, "only POST is allowed here")
	case !slices.Equal(got, []string{strconv.Itoa(Version)}):
		return refuse(CodeOtherVersion, "the peer protocol's version is %.40q there and %d here", got, Version)
	}
	if own, got := s.cfg.Cluster, r.Header.Values(ClusterHeader); !slices.Equal(got, []string{own}) {
		return refuse(CodeOtherCluster, "this gateway belongs to cluster %q, not to %.300q", own, got)
	}
	if !s.cfg.SharedCert {
		if err := certified(r.TLS, r.Header.Get(MemberHeader)); err != nil {
			return refuse(CodeRefused, "%v", err)
		}
	}
	return handle(out, r)
}

func (s *Server) read(out *sending.Writer, r *http.Request) (err error) {
	ctx, span := s.trace(r)
	defer func() { span.Ended(err) }()
	wait, err := waitOf(r.Header)
	if err != nil {
		return err
	}
	select { // acquired before the body is read, so that the number of reads limits the memory of questions
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	default:
		return refuse(CodeOverloaded, "this gateway already answers its maximum of %d reads", cap(s.reads))
	}
	text, done, err := s.body(r, maxQueryBytes, queryTimes)
	if err != nil {
		return err
	}
	defer done()
	q, err := ParseQuery(text)
	if err != nil {
		return refuse(CodeInvalid, "%v", err)
	}
	if q.Reader != nil && s.cfg.Heard != nil {
		s.cfg.Heard(q.Dataset, q.Generation, *q.Reader)
	}
	span.Text("millrace.dataset", q.Dataset)
	span.Text("millrace.generation", q.Generation)
	span.Number("millrace.chunks", int64(len(q.Chunks)))
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	stop := signs(out)
	defer stop()
	segments, release, err := s.cfg.Holder.Answer(ctx, q)
	stop()
	if err != nil {
		return err
	}
	defer release()
	total, err := q.fits(segments)
	if err != nil {
		panic(err) // the holder's answer does not match the question
	}
	span.Number("millrace.bytes", total)
	begin(out, http.StatusOK, contentBytes, total)
	if err := out.Send(net.Buffers(segments), nil); err != nil {
		span.Fail(err.Error())
		panic(http.ErrAbortHandler)
	}
	if s.cfg.Answered != nil {
		s.cfg.Answered(r.Header.Get(MemberHeader), total)
	}
	return nil
}

// trace begins the span of an answer, in the asker's trace. An asker that is not recorded sends no
// trace; then the answer is not recorded either.
func (s *Server) trace(r *http.Request) (context.Context, tracing.Span) {
	if r.Header.Get("Traceparent") == "" {
		return r.Context(), tracing.Span{}
	}
	ctx, span := s.cfg.Trace.Request(r.Context(), r.Header, "peer answer")
	span.Text("millrace.peer.member", some(r.Header.Get(MemberHeader), maxNameBytes))
	return ctx, span
}

// waitOf returns the timeout of an answer. It is a little longer than the asker's timeout, so that
// the asker's expires first.
func waitOf(h http.Header) (time.Duration, error) {
	given := h.Get(DeadlineHeader)
	ms, err := strconv.ParseUint(given, 10, 31)
	if err != nil || ms == 0 {
		return 0, refuse(CodeInvalid, "%s is %.40q: must be milliseconds", DeadlineHeader, given)
	}
	return min(time.Duration(ms)*time.Millisecond, maxWait) + waitGrace, nil
}

// signs sends signs of life to the asker at intervals, until stop is called.
func signs(out *sending.Writer) (stop func()) {
	done := make(chan struct{})
	var signing sync.WaitGroup
	signing.Go(func() {
		next := time.NewTimer(firstSign)
		defer next.Stop()
		for {
			select {
			case <-next.C:
				out.WriteHeader(http.StatusProcessing)
				next.Reset(defaultSignEvery)
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		signing.Wait()
	})
}

// body reads the body of a request. First it reserves memory, times as much as the length of the
// body. It does not wait for memory, since the asker holds some. done frees the memory.
func (s *Server) body(r *http.Request, limit, times int64) (text []byte, done func(), err error) {
	n := r.ContentLength
	if n < 0 || n > limit {
		return nil, nil, refuse(CodeInvalid, "Content-Length is %d: must be at most %d", n, limit)
	}
	done, ok := s.reserve(times * n)
	if !ok {
		// Read and discard the body: an asker whose connection breaks while it sends would consider
		// this gateway down.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, nil, refuse(CodeInvalid, "the body is incomplete")
		}
		return nil, nil, refuse(CodeOverloaded, "no memory for a query that requires %d bytes", times*n)
	}
	text = make([]byte, n)
	if _, err := io.ReadFull(r.Body, text); err != nil {
		done()
		return nil, nil, refuse(CodeInvalid, "the body is incomplete")
	}
	return text, done, nil
}

// reserve reserves n bytes of memory without waiting.
func (s *Server) reserve(n int64) (done func(), ok bool) {
	switch {
	case s.unreserved.TryAcquire(n):
		return func() { s.unreserved.Release(n) }, true
	case s.cfg.Reserve == nil:
		return func() {}, true
	}
	return s.cfg.Reserve(n)
}

func (s *Server) hello(out *sending.Writer, r *http.Request) error {
	text, done, err := s.body(r, maxHelloBytes, jsonTimes)
	if err != nil {
		return err
	}
	defer done()
	var h Hello
	if err := json.Unmarshal(text, &h); err != nil {
		return refuse(CodeInvalid, "the body is not a valid hello: %v", err)
	}
	switch id := r.Header.Get(MemberHeader); {
	case !h.named():
		return refuse(CodeInvalid, "a hello requires an id, and names of at most %d bytes", maxNameBytes)
	case h.ID != id:
		return refuse(CodeRefused, "gateway %.300q sent a hello with the ID %q", id, h.ID)
	}
	own, err := s.cfg.Met(h, r.RemoteAddr)
	if err != nil {
		return refuse(CodeRefused, "%v", err)
	}
	brief(out, http.StatusOK, contentJSON, own)
	return nil
}

// refusalOf converts an error to a refusal for the asker. It omits the text of any other error,
// which may contain keys and host names.
func refusalOf(err error) *RefusalError {
	if refused, ok := errors.AsType[*RefusalError](err); ok {
		return refused
	}
	for _, r := range rows() {
		if r.means != nil && errors.Is(err, r.means) {
			return refuse(r.code, "%v", r.means)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return refuse(CodeTimeout, "the bytes were not loaded before the deadline of the request")
	}
	return refuse(CodeStore, "the bytes could not be read; read them from the store directly")
}

// logRefusal logs refusals that should not occur between compatible gateways, at most one line per
// kind and minute.
func (s *Server) logRefusal(r *http.Request, refused *RefusalError, err error) {
	level, leftOut := zerolog.DebugLevel, 0
	switch refused.Code {
	case CodeStore, CodeInvalid, CodeOtherVersion, CodeOtherCluster, CodeRefused:
		var write bool
		if leftOut, write = s.logLimit.Allow(refused.Code + " " + loglimit.Host(r.RemoteAddr)); !write {
			return
		}
		level = zerolog.WarnLevel
	}
	s.cfg.Log.WithLevel(level).Str("from", r.RemoteAddr).Str("member", some(r.Header.Get(MemberHeader), maxNameBytes)).
		Str("path", some(r.URL.Path, maxNameBytes)).Str("code", refused.Code).Err(err).
		Int("left_out", leftOut).Msg("peer request refused")
}
