package harness_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestServersStart starts each store and sends it a request without credentials. A server that
// responds with 403 is running and protects its bucket.
func TestServersStart(t *testing.T) {
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			store := harness.Open(t, kind)
			if kind == "dir" {
				if _, err := os.Stat(store.Path); err != nil {
					t.Fatal(err)
				}
				return
			}
			endpoint := strings.TrimPrefix(store.Env[0], "AWS_ENDPOINT_URL_S3=")
			r, err := harness.Do(t.Context(), "GET", endpoint+"/"+harness.Bucket)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != 403 {
				t.Errorf("anonymous list: got %d %s, want 403", r.Status, r.Body)
			}
		})
	}
}

func TestKilledChildIsGone(t *testing.T) {
	store := harness.Open(t, "versitygw")
	pid := store.Server().Pid()
	store.Server().Kill()
	if _, err := os.Stat(filepath.Join("/proc", "self")); err == nil {
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err == nil {
			t.Errorf("process %d: got a process, want none", pid)
		}
	}
	if strings.Contains(store.Server().Log(), strings.TrimPrefix(store.Env[3], "AWS_SECRET_ACCESS_KEY=")) {
		t.Error("the server's log holds its secret")
	}
}
