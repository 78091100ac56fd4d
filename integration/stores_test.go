package integration_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// clouds is a set of stores with separate credentials, authorities and endpoints in one
// environment. The addresses contain all settings except the keys, which are in the shared
// credentials files.
type clouds struct {
	env   *harness.Store
	alone map[string]*harness.Store // each store with its own environment
	query map[string]string         // query of its address
}

// openClouds starts MinIO with TLS, versitygw, and MinIO with the credentials of a role. A
// directory is the fourth store.
func openClouds(t *testing.T) *clouds {
	t.Helper()
	authority := certtest.New(t)
	c := &clouds{
		alone: map[string]*harness.Store{
			"secure": harness.OpenMinIOTLS(t, authority), "posix": harness.Open(t, "versitygw"), "roles": harness.Open(t, "minio"), "dir": harness.Open(t, "dir"),
		},
		query: map[string]string{"secure": "&ca_file=" + authority.File, "posix": "&region=us-east-1&path_style=true"},
	}
	dir := t.TempDir()
	var keys string
	for name, s := range c.alone {
		if name == "dir" {
			continue
		}
		keys += fmt.Sprintf("[keys-of-%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", name, s.Setting(t, "AWS_ACCESS_KEY_ID"), s.Setting(t, "AWS_SECRET_ACCESS_KEY"))
	}
	place(t, filepath.Join(dir, "credentials"), keys)
	place(t, filepath.Join(dir, "config"), "[profile role]\nrole_arn = arn:aws:iam::1:role/reader\nsource_profile = keys-of-roles\n")
	for name, s := range c.alone {
		profile := "keys-of-" + name
		if name == "roles" {
			profile = "role"
		}
		if name != "dir" {
			c.query[name] = "?endpoint=" + s.Setting(t, "AWS_ENDPOINT_URL_S3") + "&profile=" + profile + c.query[name]
		}
	}
	c.env = &harness.Store{Name: "clouds", Env: []string{"AWS_SHARED_CREDENTIALS_FILE=" + filepath.Join(dir, "credentials"), "AWS_CONFIG_FILE=" + filepath.Join(dir, "config")}}
	return c
}

// address returns the address of the data in one store. Bucket and prefix are the same in all
// stores.
func (c *clouds) address(name string) string { return c.alone[name].Dataset("same") + c.query[name] }

func (c *clouds) names() []string { return []string{"secure", "posix", "roles", "dir"} }

// serve starts one gateway for the data of all stores.
func (c *clouds) serve(t *testing.T, args ...string) *harness.Gateway {
	t.Helper()
	var more []string
	for _, name := range c.names()[1:] {
		more = append(more, "--dataset", name+"="+c.address(name))
	}
	return harness.ServeAddress(t, c.env, "secure="+c.address("secure"), append(append(more, "--cache-size", "64MiB"), args...)...)
}

// TestTwoCloudsAndADirectory serves data of four stores from one gateway, and a mixture of all
// four. Every command accepts the addresses. When one store fails, the gateway still serves the
// data of the others.
func TestTwoCloudsAndADirectory(t *testing.T) {
	c := openClouds(t)
	mixed := "all=" + strings.Join(c.names(), ":3,") + ":3,per-batch"
	for i, name := range c.names() {
		files, _ := harness.Files(t, 60+i, 4000) // the bytes of each store differ
		harness.MustRun(t, c.env, append([]string{"pack", files, c.address(name), "--batch-size", "12"}, small()...)...)
		for _, args := range [][]string{
			{"index", c.address(name), "--batch-size", "12", "--chunk-size", "32KiB"},
			{"verify", c.address(name)},
			{"info", c.address(name)},
			{"gc", c.address(name)},
			{"plan", c.address(name)},
			{"reports", "list", c.address(name)},
			{"subset", c.address(name), "--into", "a=1,b=1"},
			{"simulate", c.address(name), "--rate", "3000/s", "--cache-size", "64MiB"},
		} {
			harness.MustRun(t, c.env, args...)
		}
	}
	c.typeThePage(t)
	harness.MustRun(t, c.env, "index", c.address("posix"), "--batch-size", "12", "--chunk-size", "32KiB") // restore the index that the page has replaced
	log := harness.Record(t, nil)
	for _, name := range c.names() {
		plan := harness.Packed(t, c.alone[name], "same")
		log.Expect(plan.Generation, plan)
	}
	g := c.serve(t, "--mixture", mixed)
	out := harness.MustRun(t, c.env, "serve", "--check", "--dataset", "secure="+c.address("secure"), "--cache-size", "64MiB")
	if !strings.Contains(out, "secure="+c.address("secure")) || strings.Contains(out, c.alone["secure"].Setting(t, "AWS_SECRET_ACCESS_KEY")) {
		t.Errorf("--check printed %s, want the address and no key", out)
	}
	const batches = 5
	path := func(dataset string, m int) string {
		return fmt.Sprintf("/v1/datasets/%s/epochs/0/batches/%d", dataset, m)
	}
	for _, name := range c.names() {
		for m := range batches {
			g.MustGet(t, path(name, m))
		}
		harness.MustRun(t, c.env, "fetch", g.URL, "--dataset", name)
		harness.MustRun(t, c.env, "warm", g.URL, "--dataset", name)
	}
	harness.MustRun(t, c.env, "fetch", g.URL, "--dataset", "all")

	fresh := c.serve(t, "--mixture", mixed, "--no-prefetch")
	c.alone["posix"].Server().Kill()
	for _, name := range c.names() {
		for m := range batches {
			start := time.Now()
			got := fresh.Get(t, path(name, m))
			switch took := time.Since(start); {
			case name == "posix" && got.Status != http.StatusServiceUnavailable:
				t.Errorf("of the store that is down: got %d %s, want 503", got.Status, got.Body)
			case name != "posix" && got.Status != http.StatusOK:
				t.Errorf("%s, batch %d: got %d %s, want 200", name, m, got.Status, got.Body)
			case name != "posix" && took > 10*time.Second:
				t.Errorf("%s, batch %d: took %v", name, m, took)
			}
		}
	}
	if r := fresh.Get(t, "/readyz"); r.Status != http.StatusOK {
		t.Errorf("readiness with one of four stores down: got %d %s", r.Status, r.Body)
	}
}

// typeThePage runs the commands of docs/stores.md on these stores.
func (c *clouds) typeThePage(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Several stores in one gateway\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	var script strings.Builder
	for line := range strings.Lines(rest) {
		if text, ok := strings.CutPrefix(line, "    "); ok {
			script.WriteString(text)
		}
	}
	text := strings.TrimSpace(script.String())
	for in, is := range map[string]string{
		"s3://train/photos?profile=team-a&region=eu-central-1": c.address("posix"), "sounds=/mnt/sounds": "sounds=" + c.address("dir"),
		"s3://texts/c4?endpoint=https://minio.example:9000&profile=team-b&ca_file=/etc/ca.pem": c.address("secure"),
	} {
		if !strings.Contains(text, in) {
			t.Errorf("docs/stores.md: got %s, want %s in it", text, in)
		}
		text = strings.ReplaceAll(text, in, is)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", text+" --check --cache-size 64MiB")
	cmd.Env = append([]string{"PATH=" + filepath.Dir(harness.Binary(t)) + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, c.env.Env...)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "bandwidth=500MB") {
		t.Errorf("%s: %v\n%s", text, err, out)
	}
}

// TestSameBucketAtTwoEndpoints checks that the disk tier never serves one store's bytes as those of
// another with the same bucket and names. The second store has the same index, but its shards
// contain other bytes than the index describes. The gateway would not notice if the disk tier
// supplied the first store's bytes.
func TestSameBucketAtTwoEndpoints(t *testing.T) {
	files, _ := harness.Files(t, 60, 4000)
	right, wrong := harness.Open(t, "versitygw"), harness.Open(t, "versitygw")
	env := &harness.Store{Name: "both", Env: right.Env[1:]}
	var keys string
	var addresses []string
	for i, s := range []*harness.Store{right, wrong} {
		harness.Pack(t, s, files, "same", small()...)
		keys += fmt.Sprintf("[p%d]\naws_access_key_id = %s\naws_secret_access_key = %s\n", i, s.Setting(t, "AWS_ACCESS_KEY_ID"), s.Setting(t, "AWS_SECRET_ACCESS_KEY"))
		addresses = append(addresses, fmt.Sprintf("%s?profile=p%d&path_style=true&endpoint=%s", s.Dataset("same"), i, s.Setting(t, "AWS_ENDPOINT_URL_S3")))
	}
	profiles := filepath.Join(t.TempDir(), "credentials")
	place(t, profiles, keys)
	env.Env = []string{"AWS_SHARED_CREDENTIALS_FILE=" + profiles}
	for file, bytes := range filesOf(t, filepath.Join(wrong.Path, "same")) {
		if strings.HasSuffix(file, ".tar") {
			place(t, filepath.Join(wrong.Path, "same", file), strings.Repeat("x", len(bytes))) // its ETag is stored separately, and remains
		}
	}
	disk := t.TempDir()
	serve := func() *harness.Gateway {
		return harness.ServeAddress(t, env, dataset+"="+addresses[0], "--dataset", "wrong="+addresses[1],
			"--cache-size", "64MiB", "--disk-cache", disk, "--disk-cache-size", "64MiB")
	}
	g := serve()
	harness.MustRun(t, env, "warm", g.URL)
	if r := g.Get(t, "/v1/datasets/wrong/epochs/0/batches/0"); r.Status == http.StatusOK {
		t.Error("beside each other: the bytes of one store were sent for those of the other")
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	g = serve()
	if r := g.Get(t, "/v1/datasets/wrong/epochs/0/batches/0"); r.Status == http.StatusOK {
		t.Error("the bytes of one store came from disk for those of the other")
	}
	harness.MustRun(t, env, "fetch", g.URL)
	if n := g.Metric(t, "millrace_disk_hits_total", ""); n == 0 {
		t.Error("nothing came from disk, where it may")
	}
}

// TestFaultsOfStores checks that each error for an unusable address names the fault, and contains
// no secret.
func TestFaultsOfStores(t *testing.T) {
	c := openClouds(t)
	good := c.address("roles")
	key, secret := c.alone["roles"].Setting(t, "AWS_ACCESS_KEY_ID"), c.alone["roles"].Setting(t, "AWS_SECRET_ACCESS_KEY")
	endpoint := c.alone["roles"].Setting(t, "AWS_ENDPOINT_URL_S3")
	_, credentials, _ := strings.Cut(c.env.Env[0], "=")
	for name, f := range map[string]struct {
		address string
		code    int
		want    []string
	}{
		"no profile":     {strings.Replace(good, "profile=role", "profile=nobody", 1), 1, []string{`there is no profile "nobody"`, credentials}},
		"other's keys":   {strings.Replace(good, "profile=role", "profile=keys-of-posix", 1), 5, []string{"denied", "InvalidAccessKeyId"}},
		"no authority":   {"s3://train/same?endpoint=" + c.alone["secure"].Setting(t, "AWS_ENDPOINT_URL_S3") + "&profile=keys-of-secure", 5, []string{"certificate"}},
		"user in it":     {"s3://" + key + ":" + secret + "@train/same", 2, []string{"credentials do not belong in an address"}},
		"key in it":      {"s3://train/same?aws_access_key_id=" + key + "&aws_secret_access_key=" + url.QueryEscape(secret), 2, []string{"aws_access_key_id", "credentials do not belong in an address"}},
		"user in theirs": {"s3://train/same?endpoint=" + strings.Replace(endpoint, "://", "://"+key+":"+secret+"@", 1), 2, []string{"endpoint: must be", "without credentials"}},
	} {
		for _, args := range [][]string{{"index", f.address}, {"info", f.address}, {"gc", f.address}, {"serve", "--dataset", "d=" + f.address, "--cache-size", "64MiB", "--check"}} {
			r := harness.Run(t, c.env, args...)
			if r.Code != f.code {
				t.Errorf("%s, %s: got exit code %d, want %d: %s", name, args[0], r.Code, f.code, r.Stderr)
			}
			for _, w := range f.want {
				if !strings.Contains(r.Stderr, w) {
					t.Errorf("%s, %s: got %s, want %q in it", name, args[0], r.Stderr, w)
				}
			}
			if strings.Contains(r.Stdout+r.Stderr, secret) {
				t.Errorf("%s, %s: the secret is in\n%s%s", name, args[0], r.Stdout, r.Stderr)
			}
		}
	}
}

// TestBandwidthOfADataset reads two datasets of the same bucket; only the first has a bandwidth
// limit.
func TestBandwidthOfADataset(t *testing.T) {
	store := harness.Open(t, "minio")
	files, _ := harness.Files(t, 200, 40_000)
	harness.Pack(t, store, files, "same", "--shard-size", "1MiB", "--chunk-size", "256KiB")
	const bandwidth = 2e6
	g := harness.ServeAddress(t, store, "limited="+store.Dataset("same")+"?bandwidth=2MB", "--dataset", "free="+store.Dataset("same"), "--cache-size", "64MiB")
	for name, limited := range map[string]bool{"limited": true, "free": false} {
		var bytes int64
		for _, k := range store.Keys(t, "same") {
			o, err := store.Objects(t).Stat(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			bytes += o.Size
		}
		start := time.Now()
		harness.MustRun(t, store, "fetch", g.URL, "--dataset", name)
		took, least := time.Since(start), time.Duration(float64(bytes)/bandwidth*float64(time.Second)*8/10)
		if limited && took < least {
			t.Errorf("%d bytes took %v, want %v at least", bytes, took, least)
		}
		t.Logf("%s: %d bytes in %v", name, bytes, took)
	}
	if n := g.Metric(t, "millrace_store_retries_total", ""); n > 0 {
		t.Errorf("got %v reads that were repeated, want none", n)
	}
}

// TestRedirectsOfOneStore checks that a gateway refuses a store that redirects, and serves the
// other store.
func TestRedirectsOfOneStore(t *testing.T) {
	store := harness.Open(t, "minio")
	files, _ := harness.Files(t, 20, 4000)
	harness.Pack(t, store, files, "same", small()...)
	var asked atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer target.Close()
	redirects := httptest.NewServer(http.RedirectHandler(target.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	r := harness.Run(t, store, "info", store.Dataset("same")+"?endpoint="+redirects.URL)
	if r.Code != 5 || !strings.Contains(r.Stderr, "the store sent a redirect, which is not followed") || asked.Load() > 0 {
		t.Errorf("got exit code %d after %d requests to the target: %s", r.Code, asked.Load(), r.Stderr)
	}
	harness.MustRun(t, store, "info", store.Dataset("same"))
}
