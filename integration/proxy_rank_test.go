package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
)

// byRank returns the proxies that route each rank to its gateway.
func byRank() []front {
	return slices.DeleteFunc(fronts(), func(f front) bool { return !f.byRank })
}

// serveHomes starts independent gateways.
func serveHomes(t *testing.T, store *harness.Store) (gateways []*harness.Gateway, addresses []string) {
	t.Helper()
	access, _ := openAccess(t)
	for range homed {
		g := harness.Serve(t, store, dataset, "--access", access, "--cache-size", "16MiB", "--lame-duck", "0s")
		gateways, addresses = append(gateways, g), append(addresses, strings.TrimPrefix(g.URL, "http://"))
	}
	return gateways, addresses
}

// TestProxiesSendRanksHome reads epochs with ranks that have only the proxy's address. Each rank's
// batches come from the gateway of its home, and the gateways together read the store once. When
// one gateway is killed, no rank loses a batch.
func TestProxiesSendRanksHome(t *testing.T) {
	store, reads, alone := homedStore(t)
	for _, f := range byRank() {
		for _, ranks := range []uint64{8, 3, 1} {
			t.Run(fmt.Sprintf("%s, %d ranks", f.name, ranks), func(t *testing.T) {
				gateways, addresses := serveHomes(t, store)
				proxy, _ := startFront(t, f, asItIs, addresses...)
				opt := client.Options{WorldSize: ranks, BatchSize: 256, Share: "locality", Homes: min(homed, ranks)}
				reads.Forget()
				ranksReadHomes(t, []*harness.Gateway{proxy}, opt)
				moved := movedShare(t, gateways[0], opt)
				late := 0. // a gateway repeats reads from the store that are late
				for _, g := range gateways {
					late += g.Metric(t, "millrace_store_hedges_total", "") * (32 << 10) / alone
				}
				if got := float64(reads.Bytes()) / alone; got > 1.01+moved+late {
					t.Errorf("got %.4f of the data read from the store, %d bytes of it twice, want it once (%.4f of the samples move, and %.4f may be asked for twice)", got, reads.Again(), moved, late)
				}
				for i, g := range gateways {
					var want []uint64
					for rank := range ranks {
						if rank*homed/ranks == uint64(i) {
							want = append(want, rank)
						}
					}
					if got := ranksAt(t, g); !slices.Equal(got, want) {
						t.Errorf("gateway %d of %d: got the ranks %v of %d, want %v", i, homed, got, ranks, want)
					}
				}
				if ranks == 8 {
					checkOdd(t, gateways[2], proxy)
					checkDead(t, gateways, proxy)
					ranksReadHomes(t, []*harness.Gateway{proxy}, opt)
				}
			})
		}
	}
}

// TestHashOfURLIsNoHome shows the problem described in deploy/proxies: if a proxy chooses the
// gateway by the whole URL, each gateway reads all data.
func TestHashOfURLIsNoHome(t *testing.T) {
	store, reads, alone := homedStore(t)
	_, addresses := serveHomes(t, store)
	f := byRank()[slices.IndexFunc(byRank(), func(f front) bool { return f.name == "haproxy" })]
	proxy, _ := startFront(t, f, func(config string) string {
		return strings.NewReplacer("  use-server", "  #", "balance leastconn", "balance uri whole").Replace(config)
	}, addresses...)
	reads.Forget()
	ranksReadHomes(t, []*harness.Gateway{proxy}, client.Options{WorldSize: 8, BatchSize: 256, Share: "locality", Homes: homed})
	got := float64(reads.Bytes()) / alone
	t.Logf("%.2f of the data read from the store", got)
	if got < 2 {
		t.Errorf("got %.2f of the data read from the store, want several times all: docs/operations.md says so", got)
	}
}

// ranksAt returns the ranks that have requested batches from a gateway.
func ranksAt(t *testing.T, g *harness.Gateway) (ranks []uint64) {
	t.Helper()
	var stats struct{ Readers []struct{ Rank uint64 } }
	r, err := g.TryAdmin(t.Context(), "/v1/stats")
	if err == nil {
		err = json.Unmarshal(r.Body, &stats)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range stats.Readers {
		ranks = append(ranks, r.Rank)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// checkOdd sends requests without a rank or with an impossible one, and compares the proxy's
// responses with the gateway's.
func checkOdd(t *testing.T, g, proxy *harness.Gateway) {
	t.Helper()
	for query, status := range map[string]int{
		"": 200, "&rank=0": 200, "&world_size=8": 200, "&rank=3&world_size=8": 200, "&rank=%33&world_size=8": 400, "&rank=007&world_size=8": 400,
		"&rank=-1&world_size=8": 400, "&rank=abc&world_size=8": 400, "&rank=8&world_size=8": 400, "&rank=4&world_size=3": 400,
		"&rank=1" + strings.Repeat("0", 30) + "&world_size=8": 400, "&rank=1&world_size=1" + strings.Repeat("0", 30): 400,
		"&rank=9999999999&world_size=9999999999": 400, "&rank=1&world_size=0": 400, "&rank=1&world_size=-8": 400, "&rank=1&world_size=": 400,
		"&rank=&world_size=8": 400, "&rank=1.5&world_size=8": 400, "&rank=1&rank=2&world_size=8": 400, "&rank=1e3&world_size=8": 400,
	} {
		path := "/epoch/0/batch/1?batch_size=64" + query
		want, got := g.Get(t, path, "X-Request-Id", "the-same-request"), proxy.Get(t, path, "X-Request-Id", "the-same-request")
		if want.Status != status || got.Status != status || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("%q: got %d at the gateway and %d through the proxy, %.200s; want %d and the gateway's own answer", query, want.Status, got.Status, got.Body, status)
		}
	}
}

// checkDead kills a gateway. Its ranks' batches come from the other gateways, each at the first
// attempt.
func checkDead(t *testing.T, gateways []*harness.Gateway, proxy *harness.Gateway) {
	t.Helper()
	gateways[1].Kill()
	for n := range 64 {
		path := fmt.Sprintf("/epoch/5/batch/%d?batch_size=64&share=locality&homes=%d&rank=%d&world_size=8", n/8, homed, n%8)
		if got := proxy.Get(t, path); got.Status != http.StatusOK {
			t.Errorf("%s, a gateway was killed: got %d %.200s, want the batch of the others", path, got.Status, got.Body)
		}
	}
}
