package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/millrace-data/millrace/gateway/address"
)

// sendJSON sends v as JSON. The caller has already checked preconditions.
func sendJSON(x *exchange, v any) error { return sendJSONStatus(x, http.StatusOK, v) }

func sendJSONStatus(x *exchange, status int, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	sendBytes(x, status, "application/json", body)
	return nil
}

// encodeJSON does not escape & and <, unlike json.Marshal, so that links stay readable. No response
// is HTML.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b.Bytes(), nil
}

// sendBytes sends a body in memory.
func sendBytes(x *exchange, status int, contentType string, body []byte) {
	h := x.w.Header()
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store") // without a validator a cache cannot revalidate it
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	if x.r.Method != http.MethodHead {
		x.w.MustWrite(body)
	}
}

// noQuery rejects all query parameters.
func noQuery(x *exchange) error { return address.ParseQuery(x.r.URL.RawQuery).Err() }
