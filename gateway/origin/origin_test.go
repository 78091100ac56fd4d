package origin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCrossSite checks that Check rejects requests that a page of another site makes a browser
// send, for every header that browsers send with them.
func TestCrossSite(t *testing.T) {
	for _, c := range []struct {
		header [2]string
		want   error
	}{
		{[2]string{"Origin", "https://elsewhere.example"}, ErrCrossSite},
		{[2]string{"Origin", "null"}, ErrCrossSite},
		{[2]string{"Origin", "http://gateway.example:8081"}, ErrCrossSite},
		{[2]string{"Origin", "http://gateway.example:8080"}, nil},
		{[2]string{"Sec-Fetch-Site", "cross-site"}, ErrCrossSite},
		{[2]string{"Sec-Fetch-Site", "same-site"}, ErrCrossSite},
		{[2]string{"Sec-Fetch-Site", "same-origin"}, nil},
		{[2]string{"Sec-Fetch-Site", "none"}, nil},
		{[2]string{"User-Agent", "curl"}, nil},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			r := httptest.NewRequest(method, "http://gateway.example:8080/epoch/0/batch/0", nil)
			r.Header.Set(c.header[0], c.header[1])
			if got := (&Policy{}).Check(r); !errors.Is(got, c.want) {
				t.Errorf("%s with %s: %s: got %v, want %v", method, c.header[0], c.header[1], got, c.want)
			}
		}
	}
}
