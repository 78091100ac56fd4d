package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"os"

	"github.com/millrace-data/millrace/gateway/address"
)

// maxBody is the maximum size of request bodies on routes without a limit of their own.
const maxBody = 64 << 10

const (
	// bodyStep is the number of bytes of a request body that are read and reserved together.
	bodyStep = 64 << 10

	// bodyShare is the divisor of the memory budget that gives the memory for all request bodies
	// together. Callers that send slowly can delay other bodies, but no batch.
	bodyShare = 8
)

// mostOfBodies returns the maximum memory of all request bodies together, in bytes.
func (g *Gateway) mostOfBodies() int64 {
	return max(g.cfg.Budget.Total()/bodyShare, bodyStep*reportTimes)
}

// body reads a request body of at most limit bytes, or fewer if the share of all bodies is smaller.
// Decoding needs times as much memory as the body has bytes. The memory is reserved as bytes arrive
// and held until the end of the request. The server's ReadTimeout bounds the duration.
func (g *Gateway) body(x *exchange, limit, times int64) (_ []byte, err error) {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || x.r.Header.Get("Content-Encoding") != "" {
		x.w.Header().Set("Connection", "close")
		return nil, &problem{Code: codeMediaType, Detail: "the body must have Content-Type application/json and no Content-Encoding"}
	}
	limit = min(limit, g.mostOfBodies()/times)
	defer func() {
		if err != nil {
			x.w.Header().Set("Connection", "close") // the rest of the body is not read
		}
	}()
	if x.r.ContentLength > limit {
		return nil, tooLong(limit)
	}
	in := io.LimitReader(x.r.Body, limit+1)
	var b bytes.Buffer
	for step := int64(512); ; step = bodyStep { // a body that never arrives costs little
		n, err := io.CopyN(&b, in, step)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return nil, unsent(err)
		case int64(b.Len()) > limit:
			return nil, tooLong(limit)
		}
		if n > 0 {
			if err := x.held.Add(g.holdBody(x, n*times)); err != nil {
				return nil, err
			}
		}
		if n < step {
			return b.Bytes(), nil
		}
	}
}

// holdBody reserves memory for a part of a request body.
func (g *Gateway) holdBody(x *exchange, n int64) (release func(), err error) {
	if g.posted.Add(n) > g.mostOfBodies() {
		g.posted.Add(-n)
		return nil, overloaded("the memory for request bodies is in use")
	}
	end, err := g.reserve(x.r.Context(), n)
	if err != nil {
		g.posted.Add(-n)
		return nil, err
	}
	return func() { end(); g.posted.Add(-n) }, nil
}

// unsent returns the problem for an incomplete body.
func unsent(err error) *problem {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{Code: codeTimeout, Detail: "the body was not sent in time", Cause: err}
	}
	return &problem{Code: codeInvalid, Detail: "the body is truncated or not valid HTTP", Cause: err}
}

// decodeJSON decodes one JSON value into v strictly: unknown fields and trailing data are errors.
func decodeJSON(body []byte, v any) error {
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	var kind *json.UnmarshalTypeError
	if err := in.Decode(v); errors.As(err, &kind) {
		return invalid("%s: a JSON %s is not possible here", cmp.Or(kind.Field, "the body"), kind.Value)
	} else if err != nil {
		return invalid("the body has an unexpected form: %s", address.Bounded(err.Error()))
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body has data after its JSON value")
	}
	return nil
}
