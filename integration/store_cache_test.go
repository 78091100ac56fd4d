package integration_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
)

// letAllRead allows unsigned requests to read the objects of a bucket.
func letAllRead(t *testing.T, store *harness.Store) {
	t.Helper()
	const policy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
		"Action": "s3:GetObject", "Resource": "arn:aws:s3:::` + harness.Bucket + `/*", "Condition": {"IpAddress": {"aws:SourceIp": "127.0.0.1/32"}}}]}`
	out, err := exec.CommandContext(t.Context(), "curl", "-sSf", "--noproxy", "*", "--aws-sigv4", "aws:amz:us-east-1:s3",
		"--user", store.Setting(t, "AWS_ACCESS_KEY_ID")+":"+store.Setting(t, "AWS_SECRET_ACCESS_KEY"), "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-X", "PUT", "--data-binary", policy,
		store.Setting(t, "AWS_ENDPOINT_URL_S3")+"/"+harness.Bucket+"?policy=").CombinedOutput()
	if err != nil {
		t.Fatalf("set the policy of the bucket: %v: %s", err, out)
	}
}

// startStoreCache starts nginx between gateways and a store, with the configuration of
// deploy/proxies in small slices. It returns the store as gateways reach it: shards through nginx,
// the index directly.
func startStoreCache(t *testing.T, store *harness.Store) (proxy *harness.Gateway, cached *harness.Store) {
	t.Helper()
	letAllRead(t, store)
	const config = "nginx-store-cache.conf"
	f := front{name: "nginx", config: config, program: "nginx", args: nginxArgs(config)}
	at, listen := strings.TrimPrefix(store.Setting(t, "AWS_ENDPOINT_URL_S3"), "http://"), harness.FreeAddress(t)
	proxy, _ = launchFront(t, f, func(config string) string {
		return strings.NewReplacer("127.0.0.1:9000", listen, "127.0.0.1:9001", at, "slice 4m", "slice 64k").Replace(config)
	}, at)
	proxy.URL = "http://" + listen
	proxy.Ready(t, harness.Answers(proxy.URL+"/minio/health/live"))
	cached = store.With()
	cached.Root = store.Dataset(dataset) + "?endpoint=" + proxy.URL + ",index=" + store.Root
	return proxy, cached
}

// TestStoreCacheReadsOnce reads an epoch of contiguous shares through two independent gateways.
// Without a cache each gateway reads everything. With nginx between the gateways and the store no
// byte is read twice, and a gateway that starts later causes no reads.
func TestStoreCacheReadsOnce(t *testing.T) {
	store, reads, alone := homedStore(t)
	proxy, cached := startStoreCache(t, store)
	opt := client.Options{WorldSize: 2, BatchSize: 256}
	read := func(store *harness.Store) float64 {
		two := make([]*harness.Gateway, 2)
		for i := range two {
			two[i] = harness.Serve(t, store, dataset, "--cache-size", "16MiB", "--lame-duck", "0s")
		}
		reads.Forget()
		ranksReadHomes(t, two, opt)
		return float64(reads.Bytes()) / alone
	}
	without := read(store)
	with := read(cached)
	again := reads.Again()
	later := read(cached)
	t.Logf("read from the store: %.3f of the data without nginx, %.3f with it, of which %d bytes twice, and %.3f for two gateways later", without, with, again, later)
	if without < 1.9 || with > 1.05 || again != 0 || later != 0 {
		t.Errorf("got %.3f, %.3f with %d bytes twice, and %.3f; want about 2, 1 with none, and 0", without, with, again, later)
	}
	for method, status := range map[string]int{http.MethodPut: 403, http.MethodDelete: 403, http.MethodPost: 403} {
		if r, err := harness.Do(t.Context(), method, proxy.URL+"/"+harness.Bucket+"/x"); err != nil || r.Status != status {
			t.Errorf("%s through nginx: got %d and %v, want %d", method, r.Status, err, status)
		}
	}
}
