package gateway_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzReports sends bodies to the routes for losses and snapshots. For any body the response is an
// acceptance with the number of values, or a problem that the sender caused.
func FuzzReports(f *testing.F) {
	r := newRig(f, 50, 800, nil)
	batch := r.do("HEAD", "/epoch/0/batch/0?rank=1&world_size=4&balance=bytes").Header.Get("Content-Location")
	epoch := r.do("HEAD", "/v1/datasets/photos/epochs/0").Header.Get("Content-Location")
	for _, s := range []string{
		`{"url":"` + batch + `","losses":[1,2,3,4]}`, `{"url":"` + batch + `","losses":[1,-0.0],"positions":[3,5]}`,
		`{"batches":[{"url":"` + batch + `","losses":[1e308,2,3,4]},{"url":"http://h` + batch + `","losses":[5,2,3,4]}]}`,
		`{"url":"` + epoch + `","hot_share":0.5,"repeat":2}`, `{"url":"` + batch + `","losses":[1],"positions":[18446744073709551615]}`,
		`{"url":"/epoch/0/batch/0?generation=","losses":[null]}`, `{"url":"://","losses":[]}`, `{"url":"/v1/datasets/photos/epochs/0/batches/","losses":[0]}`,
		`{}`, `[]`, `null`, `{"batches":null}`, `{"batches":[{}]}`, "\xff",
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, losses bool) {
		path := importancePath
		if !losses {
			path += "/snapshots"
		}
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		r.gateway.Handler().ServeHTTP(w, req)
		var got struct {
			Accepted int
			Code     string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%q: got %q, want JSON: %v", body, w.Body, err)
		}
		switch w.Code {
		case http.StatusOK, http.StatusCreated:
			if !json.Valid(body) || losses && (got.Accepted == 0 || got.Accepted > strings.Count(string(body), ",")+1) {
				t.Errorf("%q: got %s, want no more losses than were sent", body, w.Body)
			}
		case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict:
			if got.Code == "" {
				t.Errorf("%q: got %s, want a code", body, w.Body)
			}
		default:
			t.Errorf("%q: got status %d %s, want it accepted or refused as the sender's fault", body, w.Code, w.Body)
		}
	})
}
