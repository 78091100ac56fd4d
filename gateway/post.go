package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/millrace-data/millrace/gateway/address"
)

// maxBody bounds the body of a POST that has no limit of its own.
const maxBody = 64 << 10

// body reads what the caller sends, at most limit bytes, and at most what a quarter of the budget can hold. Their memory is
// reserved first, so many times over as decoding needs them, and held until release. The server's ReadTimeout bounds how long
// the caller may take.
func (g *Gateway) body(x *exchange, limit, times int64) (_ []byte, release func(), err error) {
	if g.cfg.Budget != nil {
		limit = min(limit, max(g.cfg.Budget.Total()/4, unreserved)/times)
	}
	size := x.r.ContentLength
	if size > limit {
		x.w.Header().Set("Connection", "close")
		return nil, nil, tooLong(limit)
	}
	if size < 0 {
		size = limit
	}
	release, err = g.reserve(x.r.Context(), size*times)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(x.r.Body, limit+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = &problem{Status: http.StatusRequestTimeout, Code: codeTimeout, Detail: "the body was not sent in time", Retryable: true, Cause: err}
	case err != nil:
		err = &problem{Status: http.StatusBadRequest, Code: codeInvalid, Detail: "the body ends early or is no HTTP", Cause: err}
	case int64(b.Len()) > limit:
		err = tooLong(limit)
	}
	if err != nil {
		release()
		x.w.Header().Set("Connection", "close") // what else there is is not read
		return nil, nil, err
	}
	return b.Bytes(), release, nil
}

// decodeJSON reads one JSON value into v strictly: no field that v has not, nothing after it.
func decodeJSON(body []byte, v any) error {
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(v); err != nil {
		return invalid("the body is not what is wanted here: %s", address.Bounded(err.Error()))
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body goes on after its JSON value")
	}
	return nil
}
