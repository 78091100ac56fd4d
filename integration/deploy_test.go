package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/integration/harness"
)

// compose is the part of docker-compose.yml that the stack stands on.
type compose struct {
	Services map[string]struct {
		Build struct {
			Context, Dockerfile, Target string
		}
		Environment map[string]string
		Command     []string
		Ports       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck struct{ Test []string }
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeFileDescribesTheStack(t *testing.T) {
	c := readCompose(t)
	if len(c.Services) != 3 {
		t.Fatalf("services: got %d, want minio, loader and gateway", len(c.Services))
	}
	for name, s := range c.Services {
		dockerfile, err := os.ReadFile(filepath.Join("..", s.Build.Context, s.Build.Dockerfile))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Build.Target != "" && !strings.Contains(string(dockerfile), " AS "+s.Build.Target+"\n") {
			t.Errorf("%s: %s has no stage %s", name, s.Build.Dockerfile, s.Build.Target)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: port %s: want loopback only", name, port)
			}
		}
		for other := range s.DependsOn {
			if _, ok := c.Services[other]; !ok {
				t.Errorf("%s: depends on %s, which is not there", name, other)
			}
		}
	}
	for _, name := range []string{"minio", "gateway"} {
		if len(c.Services[name].Healthcheck.Test) == 0 {
			t.Errorf("%s: no health check", name)
		}
	}
	if c.Services["loader"].Environment["AWS_ENDPOINT_URL_S3"] != c.Services["gateway"].Environment["AWS_ENDPOINT_URL_S3"] {
		t.Error("loader and gateway use different endpoints")
	}
}

// TestComposeCommandIsValid gives the gateway's own arguments to serve --check.
func TestComposeCommandIsValid(t *testing.T) {
	c := readCompose(t)
	files, _ := harness.Files(t, 50, 1000)
	store := harness.Open(t, "minio")
	harness.Pack(t, store, files, "sample")
	harness.MustRun(t, store, append(c.Services["gateway"].Command, "--check")...)
}

// TestImagePinsWhatTheTestsPin holds the two places in which MinIO's version stands together.
func TestImagePinsWhatTheTestsPin(t *testing.T) {
	pins, err := os.ReadFile("../tools/versions.env")
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile("../deploy/minio.Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for line := range strings.Lines(string(pins)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), "MINIO_VERSION="); ok {
			found = true
			if !strings.Contains(string(image), "@"+version+"\n") {
				t.Errorf("deploy/minio.Dockerfile: want MinIO %s", version)
			}
		}
	}
	if !found {
		t.Error("tools/versions.env: no MINIO_VERSION")
	}
}

// TestDevStackStartsAndStops runs what `make dev` and `make dev-stop` run.
func TestDevStackStartsAndStops(t *testing.T) {
	files, _ := harness.Files(t, 300, 2000)
	free := harness.FreeAddresses(t, 2)
	listen := free[0]
	// The command refuses MILLRACE_ variables that it does not know.
	clean := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "MILLRACE_") })
	env := append(clean,
		"DEV_DIR="+t.TempDir(), "DEV_LISTEN="+listen, "DEV_S3="+free[1],
		"DEV_SOURCE="+files, "DEV_BINARY="+harness.Binary(t))
	dev := func(verb string) string {
		t.Helper()
		cmd := exec.Command("../deploy/dev.sh", verb)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dev.sh %s: %v\n%s", verb, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		cmd := exec.Command("../deploy/dev.sh", "stop")
		cmd.Env = env
		_ = cmd.Run()
	})
	if out := dev("start"); !strings.Contains(out, "curl -s http://"+listen+"/epoch/0/batch/17 | tar -t") {
		t.Errorf("dev.sh start: got %s, want curl lines", out)
	}
	out, err := exec.CommandContext(t.Context(), "./smoke.sh", "http://"+listen).CombinedOutput()
	if err != nil {
		t.Errorf("smoke.sh: %v\n%s", err, out)
	}
	if out := dev("stop"); !strings.Contains(out, "stopped millrace") || !strings.Contains(out, "stopped minio") {
		t.Errorf("dev.sh stop: got %q, want both stopped", out)
	}
	if _, err := harness.Do(t.Context(), "GET", "http://"+listen+"/healthz"); err == nil {
		t.Error("after stop: the gateway still answers")
	}
}
