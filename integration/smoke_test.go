package integration_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestSmokeScript runs the public smoke script against every store.
func TestSmokeScript(t *testing.T) {
	onEveryStore(t, func(t *testing.T, store *harness.Store, _ map[string]string) {
		g := serve(t, store)
		out, err := exec.CommandContext(t.Context(), "./smoke.sh", g.URL).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "checks passed") {
			t.Errorf("smoke.sh: %v\n%s", err, out)
		}
	})
}

// TestSmokeScriptNoticesAStranger runs the script against a server that is no gateway.
func TestSmokeScriptNoticesAStranger(t *testing.T) {
	store := harness.Open(t, "minio")
	endpoint := strings.TrimPrefix(store.Env[0], "AWS_ENDPOINT_URL_S3=")
	out, err := exec.CommandContext(t.Context(), "./smoke.sh", endpoint).CombinedOutput()
	if err == nil {
		t.Errorf("smoke.sh against MinIO: got success, want a failure\n%s", out)
	}
}
