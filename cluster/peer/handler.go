package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/quiet"
)

const (
	waitGrace = 250 * time.Millisecond
	firstSign = 10 * time.Millisecond // until the first sign of life: an answer from memory needs none
)

var errPanicked = errors.New("the holder panicked")

// ServeHTTP answers one request. Once the first byte of an answer is out, what goes wrong ends in a
// panic with http.ErrAbortHandler: the connection breaks, and no answer looks whole that is not.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	out := newWriter(w, r, s.cfg.WriteStall)
	defer func() {
		what := recover()
		if what == nil {
			return
		}
		err, ok := what.(error)
		aborted := ok && errors.Is(err, http.ErrAbortHandler)
		if !aborted {
			s.cfg.Log.Error().Interface("panic", what).Bytes("stack", debug.Stack()).Msg("peer request")
		}
		if aborted || out.began {
			panic(http.ErrAbortHandler)
		}
		out.refuse(refuse(CodeInternal, "something went wrong inside the gateway; its log has the detail"))
	}()
	err := s.route(out, r)
	if err == nil {
		return
	}
	refused := refusalOf(err)
	s.logRefusal(r, refused, err)
	out.refuse(refused)
}

// route finds out what is asked, after who asks.
func (s *Server) route(out *writer, r *http.Request) error {
	handle := map[string]func(*writer, *http.Request) error{
		readPath: s.read, helloPath: s.hello, leavingPath: s.leaving,
	}[r.URL.Path]
	if handle == nil {
		return refuse(CodePeerPort, "this is the peer port, on which gateways ask each other; clients use the data port (--listen)")
	}
	if r.Method != http.MethodPost {
		out.Header().Set("Allow", http.MethodPost)
		return refuse(CodeMethod, "only POST is answered here")
	}
	if err := s.checkAsker(r.Header); err != nil {
		return err
	}
	if err := s.checkName(r, r.Header.Get(MemberHeader)); err != nil {
		return err
	}
	return handle(out, r)
}

// checkAsker refuses what was passed on by another gateway, and who belongs to another cluster or
// speaks otherwise.
func (s *Server) checkAsker(h http.Header) error {
	if got := h.Values(HopHeader); !slices.Equal(got, []string{Hop}) {
		return refuse(CodeHop, "%s is %.40q, want %s: what one gateway asks another goes no further", HopHeader, got, Hop)
	}
	if got := h.Values(VersionHeader); !slices.Equal(got, []string{strconv.Itoa(Version)}) {
		return refuse(CodeOtherVersion, "the peer protocol's version is %.40q there and %d here", got, Version)
	}
	if own, got := s.cfg.Self().Cluster, h.Values(ClusterHeader); !slices.Equal(got, []string{own}) {
		return refuse(CodeOtherCluster, "this gateway belongs to cluster %q, not to %.300q", own, got)
	}
	return nil
}

// checkName refuses a gateway that calls itself by a name that its certificate does not have.
func (s *Server) checkName(r *http.Request, member string) error {
	if s.cfg.SharedCert {
		return nil
	}
	if err := certified(r.TLS, member); err != nil {
		return refuse(CodeRefused, "%v", err)
	}
	return nil
}

func (s *Server) read(out *writer, r *http.Request) error {
	wait, err := waitOf(r.Header)
	if err != nil {
		return err
	}
	select { // before the body, so that their number bounds what questions take of memory
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	default:
		return refuse(CodeOverloaded, "%d reads are being answered already", cap(s.reads))
	}
	bill := &bill{server: s}
	defer bill.close()
	text, err := bill.body(r, maxQueryBytes, 1)
	if err != nil {
		return err
	}
	if err := bill.add(costOf(text)); err != nil {
		return err
	}
	q, err := ParseQuery(text)
	if err != nil {
		return refuse(CodeInvalid, "%v", err)
	}
	if q.Reader != nil && s.cfg.Heard != nil {
		s.cfg.Heard(q.Dataset, q.Generation, *q.Reader)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	body, err := s.bring(ctx, out, q)
	if err != nil {
		return err
	}
	defer body.Close()
	total, err := q.fits(body.Segments)
	if err != nil {
		return err
	}
	scratch := s.gather()
	defer s.scratch.Put(scratch)
	out.answer(body.Segments, total, *scratch)
	if s.cfg.Answered != nil {
		s.cfg.Answered(r.Header.Get(MemberHeader), total)
	}
	return nil
}

// waitOf is how long an answer may take to begin: as long as the asker waits, and a little, so that
// he is the first to know.
func waitOf(h http.Header) (time.Duration, error) {
	given := h.Values(DeadlineHeader)
	if len(given) == 1 && len(given[0]) <= 9 {
		if ms, err := strconv.ParseUint(given[0], 10, 32); err == nil && ms > 0 {
			return min(time.Duration(ms)*time.Millisecond, maxWait) + waitGrace, nil
		}
	}
	return 0, refuse(CodeInvalid, "%s is %.40q, want milliseconds", DeadlineHeader, given)
}

// checkLength refuses a body that does not say how long it is, or is longer than limit.
func checkLength(r *http.Request, limit int64) error {
	switch {
	case r.ContentLength < 0 || len(r.TransferEncoding) > 0:
		return refuse(CodeInvalid, "a body without Content-Length")
	case r.ContentLength > limit:
		return refuse(CodeTooLarge, "a body of %d bytes, at most %d are read", r.ContentLength, limit)
	}
	return nil
}

// bodyOf reads a body whose length is paid for.
func bodyOf(r *http.Request) ([]byte, error) {
	text := make([]byte, r.ContentLength)
	if n, err := io.ReadFull(r.Body, text); err != nil {
		return nil, refuse(CodeInvalid, "a body of %d bytes, %d were said", n, r.ContentLength)
	}
	return text, nil
}

// bring has the holder answer, and tells the asker every while that this gateway lives.
func (s *Server) bring(ctx context.Context, out *writer, q *Query) (*chunkindex.Body, error) {
	type brought struct {
		body *chunkindex.Body
		err  error
	}
	done := make(chan brought, 1)
	go func() {
		body, err := s.ask(ctx, q)
		done <- brought{body, err}
	}()
	next := time.NewTimer(min(firstSign, s.cfg.SignEvery))
	defer next.Stop()
	for {
		select {
		case b := <-done:
			return b.body, b.err
		case <-next.C:
			out.sign()
			next.Reset(s.cfg.SignEvery)
		}
	}
}

// ask turns a holder's panic into an error: it happens where no server would recover it.
func (s *Server) ask(ctx context.Context, q *Query) (body *chunkindex.Body, err error) {
	defer func() {
		if what := recover(); what != nil {
			s.cfg.Log.Error().Interface("panic", what).Bytes("stack", debug.Stack()).Msg("peer request")
			body, err = nil, errPanicked
		}
	}()
	return s.cfg.Holder.Answer(ctx, q)
}

func (s *Server) hello(out *writer, r *http.Request) error {
	var h Hello
	bill := &bill{server: s}
	defer bill.close()
	if err := bill.json(r, maxHelloBytes, &h); err != nil {
		return err
	}
	self := s.cfg.Self()
	switch {
	case h.Cluster != self.Cluster:
		return refuse(CodeOtherCluster, "this gateway belongs to cluster %q, not to %.300q", self.Cluster, h.Cluster)
	case !h.named():
		return refuse(CodeInvalid, "a hello needs an id, and its names have at most %d bytes", maxNameBytes)
	}
	if err := s.checkName(r, h.ID); err != nil {
		return err
	}
	if s.cfg.Met != nil {
		if err := s.cfg.Met(h, r.RemoteAddr); err != nil {
			return refuse(CodeRefused, "%v", err)
		}
	}
	text, err := json.Marshal(self)
	if err != nil {
		return err
	}
	out.brief(http.StatusOK, contentJSON, text)
	return nil
}

func (s *Server) leaving(out *writer, r *http.Request) error {
	if s.cfg.Member != nil && !s.cfg.Member(r.Header.Get(MemberHeader), r.Header.Get(BootHeader)) {
		return refuse(CodeRefused, "gateway %.300q is no member here, so nobody waits for its last word", r.Header.Get(MemberHeader))
	}
	var l Leaving
	bill := &bill{server: s}
	defer bill.close()
	if err := bill.json(r, maxLeavingBytes, &l); err != nil {
		return err
	}
	if l.ID == "" || len(l.ID) > maxNameBytes || len(l.Boot) > maxNameBytes {
		return refuse(CodeInvalid, "who leaves needs an id, of at most %d bytes", maxNameBytes)
	}
	if err := s.checkName(r, l.ID); err != nil {
		return err
	}
	if s.cfg.Leaving != nil {
		s.cfg.Leaving(r.Context(), l, r.RemoteAddr)
	}
	out.brief(http.StatusOK, contentJSON, []byte("{}"))
	return nil
}

// json reads a body into a value.
func (b *bill) json(r *http.Request, limit int64, value any) error {
	text, err := b.body(r, limit, jsonTimes)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return refuse(CodeInvalid, "the body is not the JSON that belongs here: %v", err)
	}
	return nil
}

// refusalOf says how the asker is told of an error. Words of the parts below may name keys and
// hosts, and stay here.
func refusalOf(err error) *Refused {
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, ErrNotHere):
		return refuse(CodeNotHere, "%v", ErrNotHere)
	case errors.Is(err, ErrNotServed):
		return refuse(CodeNotServed, "%v", ErrNotServed)
	case errors.Is(err, ErrMismatch):
		return refuse(CodeMismatch, "%v", ErrMismatch)
	case errors.Is(err, ErrNoRoom):
		return refuse(CodeOverloaded, "%v", ErrNoRoom)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refuse(CodeTimeout, "the bytes were not here in the time that the asker gave")
	case errors.Is(err, errPanicked), errors.Is(err, errSegments):
		return refuse(CodeInternal, "something went wrong inside the gateway; its log has the detail")
	}
	return refuse(CodeStore, "the bytes could not be had; the store may be asked directly")
}

// logRefusal tells the operator of what should not happen between gateways that fit together, once
// a minute of each kind.
func (s *Server) logRefusal(r *http.Request, refused *Refused, err error) {
	level := zerolog.DebugLevel
	switch refused.Code {
	case CodeInternal:
		level = zerolog.ErrorLevel
	case CodeStore, CodeHop, CodeInvalid, CodeTooLarge, CodeOtherVersion, CodeOtherCluster, CodeRefused:
		level = zerolog.WarnLevel
	}
	leftOut := 0
	if level == zerolog.WarnLevel {
		var write bool
		if leftOut, write = s.quiet.Tell(refused.Code + " " + quiet.Host(r.RemoteAddr)); !write {
			return
		}
	}
	s.cfg.Log.WithLevel(level).Str("from", r.RemoteAddr).Str("member", some(r.Header.Get(MemberHeader))).
		Str("boot", some(r.Header.Get(BootHeader))).Str("path", some(r.URL.Path)).Str("code", refused.Code).Err(err).
		Int("left_out", leftOut).Msg("peer request refused")
}

// some is as much of what a stranger says as a log needs.
func some(said string) string { return said[:min(len(said), maxNameBytes)] }
