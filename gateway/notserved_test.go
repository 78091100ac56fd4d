package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestWhatIsNotServedIsNamed: the error contains the unknown name, so that a typing error is
// visible at once.
func TestWhatIsNotServedIsNamed(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	old := strings.Repeat("ab", 32)
	for path, want := range map[string][]string{
		"/v1/datasets/foto":                         {`"foto"`, "GET /v1/datasets"},
		"/epoch/0/batch/0?generation=" + old:        {old, r.index.Generation()},
		"/v1/datasets/" + strings.Repeat("x", 5000): {`xxx"`, "GET /v1/datasets"},
	} {
		p := r.do("GET", path)
		checkProblem(t, p, http.StatusNotFound, "not_found", false)
		for _, w := range want {
			if !strings.Contains(strings.ReplaceAll(string(p.body), `\"`, `"`), w) || len(p.body) > 1000 {
				t.Errorf("%.60s: got %.500s, want %s in it", path, p.body, w)
			}
		}
	}
}
