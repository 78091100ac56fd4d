package integration_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/integration/harness"
)

// compose is the part of docker-compose.yml that these tests read.
type compose struct {
	Services map[string]struct {
		Build struct {
			Context, Dockerfile, Target string
		}
		Environment map[string]string
		Command     []string
		Ports       []string
		Profiles    []string
		Volumes     []string
		Networks    map[string]struct{ Aliases []string }
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck struct{ Test []string }
	}
}

// members returns the names of the services that form one cluster, in order.
func (c compose) members() (names []string) {
	for name, s := range c.Services {
		if slices.Contains(s.Command, "--cluster") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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
	var plain []string
	for name, s := range c.Services {
		if len(s.Profiles) == 0 {
			plain = append(plain, name)
		}
	}
	slices.Sort(plain)
	if !slices.Equal(plain, []string{"gateway", "loader", "minio"}) || len(c.members()) != 3 {
		t.Fatalf("services: got %q without a profile and members %q, want minio, loader and gateway, and three members", plain, c.members())
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
	for _, name := range append(c.members(), "minio", "gateway") {
		if len(c.Services[name].Healthcheck.Test) == 0 {
			t.Errorf("%s: no health check", name)
		}
	}
	if c.Services["loader"].Environment["AWS_ENDPOINT_URL_S3"] != c.Services["gateway"].Environment["AWS_ENDPOINT_URL_S3"] {
		t.Error("loader and gateway use different endpoints")
	}
}

// TestComposeCommandIsValid passes the gateway's own arguments to serve --check.
func TestComposeCommandIsValid(t *testing.T) {
	c := readCompose(t)
	files, _ := harness.Files(t, 50, 1000)
	store := harness.Open(t, "minio")
	harness.Pack(t, store, files, "sample")
	harness.MustRun(t, store, append(c.Services["gateway"].Command, "--check")...)
}

// TestComposeClusterIsValid passes each member's own arguments to serve --check, with certificates
// from the stack's own service for them.
func TestComposeClusterIsValid(t *testing.T) {
	c := readCompose(t)
	files, _ := harness.Files(t, 50, 1000)
	store := harness.Open(t, "minio")
	harness.Pack(t, store, files, "sample")
	dir := t.TempDir()
	made := c.Services["certificates"]
	out, err := exec.CommandContext(t.Context(), "sh", append([]string{"../deploy/certificates.sh", dir}, made.Command[1:]...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("certificates.sh: %v\n%s", err, out)
	}
	for _, name := range c.members() {
		s := c.Services[name]
		if !slices.Equal(s.Profiles, []string{"cluster"}) || !slices.Contains(s.Networks["default"].Aliases, "gateways") {
			t.Errorf("%s: got profiles %q and networks %v, want cluster, and the name that it is found by", name, s.Profiles, s.Networks)
		}
		if !slices.Contains(made.Command, name) || !slices.Contains(s.Volumes, "certificates:/certificates:ro") {
			t.Errorf("%s: nobody makes its certificate, or it does not see it", name)
		}
		args := make([]string, len(s.Command))
		for i, arg := range s.Command {
			args[i] = strings.ReplaceAll(arg, "/certificates", dir)
		}
		for _, want := range []string{name, filepath.Join(dir, name+".pem"), "dns:gateways:7946"} {
			if !slices.Contains(args, want) {
				t.Errorf("%s: got %q, want %s in it", name, args, want)
			}
		}
		harness.MustRun(t, store, append(args, "--check")...)
	}
}

// TestCertificatesHaveNamesAndAddresses reads the certificates that certificates.sh makes for
// gateways with several names and addresses.
func TestCertificatesHaveNamesAndAddresses(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "sh", "../deploy/certificates.sh", dir, "gw-0", "gw-1,gw-1.example,10.0.0.7,fd00::7", "10.0.0.8").CombinedOutput(); err != nil {
		t.Fatalf("certificates.sh: %v\n%s", err, out)
	}
	for name, want := range map[string]string{"gw-0": "[gw-0] []", "gw-1": "[gw-1 gw-1.example] [10.0.0.7 fd00::7]", "10.0.0.8": "[] [10.0.0.8]"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.DNSNames, c.IPAddresses); got != want {
			t.Errorf("%s: got names %s, want %s", name, got, want)
		}
	}
}

// TestDevClusterStartsAndStops runs the commands of `make dev-cluster` and `make dev-stop`.
// smoke.sh must succeed at every member.
func TestDevClusterStartsAndStops(t *testing.T) {
	free := harness.FreeAddresses(t, 7)
	dev := devStack(t, "DEV_LISTEN="+strings.Join(free[:3], " "), "DEV_PEERS="+strings.Join(free[3:6], " "), "DEV_S3="+free[6])
	if out := dev("cluster"); !strings.Contains(out, "curl -s http://"+free[0]+"/v1/cluster") {
		t.Errorf("dev.sh cluster: got %s, want curl lines", out)
	}
	for _, listen := range free[:3] {
		out, err := exec.CommandContext(t.Context(), "./smoke.sh", "http://"+listen).CombinedOutput()
		if err != nil {
			t.Errorf("smoke.sh: %v\n%s", err, out)
		}
	}
	if r, err := harness.Do(t.Context(), "GET", "http://"+free[2]+"/v1/cluster"); err != nil || !strings.Contains(string(r.Body), `"gw-0"`) {
		t.Errorf("/v1/cluster: got %s and %v, want gw-0 in it", r.Body, err)
	}
	if out := dev("stop"); !strings.Contains(out, "stopped millrace-0") || !strings.Contains(out, "stopped millrace-2") {
		t.Errorf("dev.sh stop: got %q, want all stopped", out)
	}
}

// TestImagePinsWhatTheTestsPin compares the two files that pin MinIO's version.
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

// devStack returns a function that runs dev.sh on a few files, in a temporary directory and with
// these variables.
func devStack(t *testing.T, vars ...string) func(verb string) string {
	t.Helper()
	files, _ := harness.Files(t, 300, 2000)
	// The command refuses unknown MILLRACE_ variables.
	clean := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "MILLRACE_") })
	env := append(clean, append(vars, "DEV_DIR="+t.TempDir(), "DEV_SOURCE="+files, "DEV_BINARY="+harness.Binary(t))...)
	t.Cleanup(func() {
		cmd := exec.Command("../deploy/dev.sh", "stop")
		cmd.Env = env
		_ = cmd.Run()
	})
	return func(verb string) string {
		t.Helper()
		cmd := exec.Command("../deploy/dev.sh", verb)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("dev.sh %s: %v\n%s", verb, err, out)
		}
		return string(out)
	}
}

// TestDevStackStartsAndStops runs the commands of `make dev` and `make dev-stop`.
func TestDevStackStartsAndStops(t *testing.T) {
	free := harness.FreeAddresses(t, 2)
	listen := free[0]
	dev := devStack(t, "DEV_LISTEN="+listen, "DEV_S3="+free[1])
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
