package integration_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// Warnings that REDbot gives for correct responses.
const (
	// Without public, a shared cache may not store the response to a request with a token (RFC
	// 9111, 3.5), even if all clients may read it.
	public = "Cache-Control: public is probably not necessary."
	// REDbot gives this warning for every 400.
	refused = "The server didn't understand the request."
)

// TestREDbotFindsNoFault has REDbot, an independent HTTP checker, request every kind of response,
// with its own conditions, ranges and encodings.
func TestREDbotFindsNoFault(t *testing.T) {
	_, g, _ := served(t)
	generation := g.MustGet(t, "/epoch/0/batch/0").Header.Get("Millrace-Generation")
	pinned := "?generation=" + generation
	const epoch = "/v1/datasets/photos/epochs/0"
	allowed := map[string][]string{ // allowed notes by path
		g.URL + "/":                                   nil,
		g.URL + "/healthz":                            nil,
		g.URL + "/readyz":                             nil,
		g.URL + "/openapi.json":                       nil,
		g.URL + "/v1/datasets":                        nil,
		g.URL + "/v1/datasets/photos":                 nil,
		g.URL + epoch:                                 nil,
		g.URL + epoch + pinned:                        {public},
		g.URL + epoch + "/batches/0":                  nil,
		g.URL + epoch + "/batches/0" + pinned:         {public},
		g.URL + epoch + "/batches/0/manifest":         nil,
		g.URL + epoch + "/batches?count=2":            nil,
		g.URL + epoch + "/batches/0?format=arrow":     nil,
		g.URL + epoch + "/batches/0?format=multipart": nil,
		g.URL + epoch + "/mds/index.json":             nil,
		g.URL + epoch + "/wds/000000.tar":             nil,

		g.URL + "/v1/datasets/photos/sample?key=class-00%2Fsample-000000":                             nil,
		g.URL + "/v1/datasets/photos/occurrences?key=class-00%2Fsample-000000&epochs=0-9":             nil,
		g.URL + "/v1/datasets/photos/occurrences?key=class-00%2Fsample-000000&epochs=0&" + pinned[1:]: {public},
		g.URL + "/v1/datasets/photos/index":                                                           nil,
		g.URL + "/nosuch":                                                                             nil,
		g.URL + epoch + "/batches/99999":                                                              nil,
		g.URL + epoch + "/batches/0?batch_size=0":                                                     {refused},
		g.Admin + "/metrics":                                                                          nil,
		g.Admin + "/v1/stats":                                                                         nil,
	}
	judge(t, allowed, "")
}

// TestREDbotFindsNoFaultWithTokens has REDbot request a dataset that requires a token, with and
// without the token.
func TestREDbotFindsNoFaultWithTokens(t *testing.T) {
	access, token := openAccess(t)
	files, _ := harness.Files(t, 50, 3000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, small()...)
	g := harness.Serve(t, store, dataset, "--dataset", "closed="+store.Dataset(dataset), "--cache-size", "64MiB", "--access", access)
	const epoch = "/v1/datasets/closed/epochs/0"
	generation := g.MustGet(t, epoch+"/batches/0", "Authorization", "Bearer "+token).Header.Get("Millrace-Generation")
	allowed := map[string][]string{
		g.URL + "/v1/datasets":                                nil,
		g.URL + epoch + "/batches/0":                          nil,
		g.URL + epoch + "/batches/0?generation=" + generation: nil,
		g.URL + epoch + "?generation=" + generation:           nil,
		g.URL + "/v1/datasets/nosuch":                         nil,
		g.URL + "/v1/datasets/closed/warm":                    nil,
		g.URL + "/v1/datasets/photos/epochs/0/batches/0":      nil,
	}
	judge(t, allowed, token)
	judge(t, allowed, "")
	judge(t, allowed, "mr_unknown")
}

// judge has REDbot check URLs, and fails for each note that is not allowed.
func judge(t *testing.T, allowed map[string][]string, token string) {
	t.Helper()
	var urls []string
	for url := range allowed {
		urls = append(urls, url)
	}
	path, env := harness.Python(t)
	cmd := exec.CommandContext(t.Context(), path, append([]string{filepath.Join("python", "judge.py")}, urls...)...)
	cmd.Env = append(env, "MILLRACE_TOKEN="+token)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask REDbot: %v: %s", err, stderr.String())
	}
	var notes map[string][][3]string
	if err := json.Unmarshal(out, &notes); err != nil || len(notes) != len(urls) {
		t.Fatalf("REDbot: got %d judgements and %v, want %d: %s", len(notes), err, len(urls), out)
	}
	for url, found := range notes {
		for _, note := range found {
			if !slices.Contains(allowed[url], note[2]) {
				t.Errorf("%s: REDbot says %v", url, note)
			}
		}
	}
}
