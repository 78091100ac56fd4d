package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// trio prepares a cluster of three gateways on loopback, over a store with 400 samples in many
// chunks.
func trio(t *testing.T, store *harness.Store, change func(*harness.FleetConfig)) *harness.Fleet {
	t.Helper()
	cfg := harness.FleetConfig{
		Store: store, Dataset: dataset, Size: 3,
		Args: []string{"--cache-size", "64MiB", "--lame-duck", "300ms"},
	}
	if change != nil {
		change(&cfg)
	}
	return harness.NewFleet(t, cfg)
}

// packed packs 400 samples into a store that records the test's reads.
func packed(t *testing.T, kind string) *harness.Store {
	t.Helper()
	if harness.Recorded(t) == nil {
		harness.Record(t, nil)
	}
	files, _ := harness.Files(t, sampleCount(), 4000)
	store := harness.Open(t, kind)
	harness.Pack(t, store, files, dataset, small()...)
	return store
}

// ranksRead reads an epoch with three ranks, each of which prefers its own gateway.
func ranksRead(t *testing.T, f *harness.Fleet, opt client.Options) {
	t.Helper()
	opt.WorldSize, opt.BatchSize = uint64(len(f.Members)), 16
	allRead(t, opt, func(uint64) []string { return f.URLs() })
	harness.Recorded(t).Complete("job", jobName(opt), 0)
}

// jobName returns the name of an epoch in the history.
func jobName(opt client.Options) string { return fmt.Sprint("epoch ", opt.Epoch) }

// allRead lets all ranks read batches of an epoch concurrently, each from its own list of gateways.
func allRead(t *testing.T, opt client.Options, gateways func(rank uint64) []string) {
	t.Helper()
	opt.Manifest = true
	var all sync.WaitGroup
	for rank := range opt.WorldSize {
		all.Go(func() {
			if err := rankReads(t.Context(), harness.Recorded(t), gateways(rank), opt, rank); err != nil {
				t.Errorf("epoch %d, rank %d: %v", opt.Epoch, rank, err)
			}
		})
	}
	all.Wait()
}

func rankReads(ctx context.Context, log *history.Log, gateways []string, opt client.Options, rank uint64) error {
	who := fmt.Sprint("rank ", rank)
	c, err := client.New(client.Config{Gateways: gateways, Home: client.HomeByRank, Dataset: dataset, HTTP: log.Client(who)})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	opt.Rank = rank
	for b, err := range c.Batches(ctx, opt) {
		if err != nil {
			return err
		}
		log.Took(who, jobName(opt), b)
	}
	return nil
}

// storedBytes returns the total size of all chunks, from a gateway's page.
func storedBytes(t *testing.T, g *harness.Gateway) float64 {
	t.Helper()
	var page struct{ Datasets []struct{ Bytes float64 } }
	if err := json.Unmarshal(g.MustGet(t, "/v1/datasets").Body, &page); err != nil || len(page.Datasets) != 1 {
		t.Fatalf("/v1/datasets: got %+v and %v, want one", page, err)
	}
	return page.Datasets[0].Bytes
}

// storeBytes returns the bytes that the members have read from the store since they started,
// according to their metrics.
func storeBytes(t *testing.T, members ...*harness.Member) (sum float64) {
	t.Helper()
	for _, m := range members {
		sum += m.Metric(t, "millrace_store_read_bytes_total", "") + m.Metric(t, "millrace_store_range_bytes_total", "")
	}
	return sum
}

// TestClusterReadsEachByteOnce reads epochs through three gateways on every store, with contiguous
// shares and with shares that follow the lanes. It repeats this after one gateway has stopped, and
// after two have.
func TestClusterReadsEachByteOnce(t *testing.T) {
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			store := packed(t, kind)
			f := trio(t, store, nil)
			f.StartAll(t)
			f.Agree(t)
			ranksRead(t, f, client.Options{Window: 12})
			stored := storedBytes(t, f.Members[0].Gateway)
			if got := storeBytes(t, f.Members...); got < stored || got > stored && harness.Overdue(t, f.Members...) == 0 {
				t.Errorf("three gateways read %.0f bytes of the store, want the %.0f that are stored", got, stored)
			}
			ranksRead(t, f, client.Options{Epoch: 1, Window: 12, Share: "locality"})
			if got := storeBytes(t, f.Members...); got > stored && harness.Overdue(t, f.Members...) == 0 {
				t.Errorf("after a second epoch: got %.0f bytes of the store, want %.0f still", got, stored)
			}
			f.Members[1].Kill()
			ranksRead(t, f, client.Options{Epoch: 2, Window: 12})
			f.Members[2].Kill()
			ranksRead(t, f, client.Options{Epoch: 3, Window: 12})
		})
	}
}

// TestComingAndGoingReadsNothing stops a member with SIGTERM and restarts it. The others fetch its
// chunks from it before it exits; after its restart it fetches its part from them. Nothing is read
// from the store.
func TestComingAndGoingReadsNothing(t *testing.T) {
	store := packed(t, "dir")
	f := trio(t, store, func(c *harness.FleetConfig) { c.Args = []string{"--cache-size", "64MiB", "--lame-duck", "2s"} })
	f.StartAll(t)
	f.Agree(t)
	plan := client.Options{Window: 12}
	ranksRead(t, f, plan)
	stay, goes := f.Members[:2], f.Members[2]
	before := storeBytes(t, stay...)
	if goes.Metric(t, "millrace_cache_bytes", "") == 0 {
		t.Fatal("the member that goes holds nothing")
	}
	if err := goes.Stop(); err != nil {
		t.Error(err)
	}
	plan.Epoch = 1
	ranksRead(t, f, plan)
	if got := storeBytes(t, stay...) - before; got != 0 && harness.Overdue(t, stay...) == 0 {
		t.Errorf("after a member has gone: got %.0f bytes of the store, want none", got)
	}
	f.Start(t, 2)
	f.Agree(t)
	plan.Epoch = 2
	ranksRead(t, f, plan)
	if got := storeBytes(t, f.Members...) - before; got != 0 && harness.Overdue(t, f.Members...) == 0 {
		t.Errorf("after it has come again: got %.0f bytes of the store, want none", got)
	}
	if got := goes.Metric(t, "millrace_peer_handover_chunks_total", ""); got == 0 {
		t.Error("the member that has come again brought no chunk from the others")
	}
}

// TestClusterPage requests /v1/cluster while all members run, and after one has been killed.
func TestClusterPage(t *testing.T) {
	f := trio(t, packed(t, "dir"), nil)
	f.StartAll(t)
	f.Agree(t)
	v, err := f.Members[0].View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.Cluster != harness.ClusterName || v.Self.ID != "gw-0" || v.Self.Address != f.Members[0].Peer || len(v.Members) != 2 || len(v.Faults) != 0 {
		t.Errorf("got %+v, want gw-0 of %s with two others and no faults", v, harness.ClusterName)
	}
	share := 0.0
	for _, m := range append(v.Members, v.Self) {
		if len(m.Serves) != 1 || m.Serves[0].Dataset != dataset {
			t.Fatalf("%s: got %+v, want one dataset", m.ID, m.Serves)
		}
		share += m.Serves[0].Share
	}
	if math.Abs(share-1) > 1e-9 {
		t.Errorf("shares: got %v together, want 1", share)
	}
	f.Members[2].Kill()
	f.Members[0].Ready(t, func(ctx context.Context) error {
		v, err := f.Members[0].View(ctx)
		if err == nil && (len(v.Members) != 2 || v.Members[1].State != "gone" || v.Members[1].Reason == "") {
			err = fmt.Errorf("got %+v, want gw-2 gone, with a reason", v.Members)
		}
		return err
	})
	plain := serve(t, packed(t, "dir"))
	if r, err := plain.TryAdmin(t.Context(), "/v1/cluster"); err != nil || r.Status != http.StatusNotFound || !strings.Contains(string(r.Body), "--cluster NAME") {
		t.Errorf("/v1/cluster of a gateway on its own: got %d %s and %v, want 404 with the cure", r.Status, r.Body, err)
	}
}

// TestFileJoin lets members find one another through a file, which names the third gateway only
// after the first two have run for a while. The third gateway's file names only itself.
func TestFileJoin(t *testing.T) {
	store := packed(t, "dir")
	list := filepath.Join(t.TempDir(), "gateways")
	f := trio(t, store, func(c *harness.FleetConfig) { c.Join = "file:" + list })
	write := func(text string) {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# job-a\n" + f.Members[0].Peer + "\n" + f.Members[1].Peer + "\n")
	f.StartAll(t, 0, 1)
	f.Agree(t, 0, 1)
	f.Start(t, 2) // it contacts the others, but they do not contact it
	if err := f.Members[0].Sees(2)(t.Context()); err != nil {
		t.Error(err)
	}
	write(f.Members[0].Peer + "," + f.Members[2].Peer + "\n" + f.Members[1].Peer)
	f.Agree(t)
	ranksRead(t, f, client.Options{Window: 12})
}

// TestStrangersAreRefused starts a third gateway that does not fit the cluster. The cluster logs
// the reason, its two members continue, and the third gateway still serves from the store.
func TestStrangersAreRefused(t *testing.T) {
	store := packed(t, "dir")
	authority, other := certtest.New(t), certtest.New(t)
	stranger := harness.Certify(t, authority, "stranger", "127.0.0.1")
	another := harness.Certify(t, authority, "gw-1", "127.0.0.1")
	foreign := harness.Certify(t, other, "gw-2", "127.0.0.1")
	for _, c := range []struct {
		name string
		tls  *certtest.Authority
		args []string
		want []string // in the log of a member or of the stranger
	}{
		{"another cluster", nil, []string{"--cluster", "job-b"}, []string{`belongs to cluster \"job-a\"`, `job-b`}},
		{"a name that is taken", nil, []string{"--member", "gw-1"}, []string{`two gateways have the name \"gw-1\"`, "--member"}},
		{"a certificate that is not allowed", authority, []string{"--peer-cert", stranger.Cert, "--peer-key", stranger.Key, "MILLRACE_PEER_SHARED_CERT=true"}, []string{"stranger", "allows none of these names"}},
		{
			"another member's certificate", authority,
			[]string{"--member", "gw-77", "--peer-cert", another.Cert, "--peer-key", another.Key, "MILLRACE_PEER_SHARED_CERT=true"},
			[]string{`has the member name \"gw-77\", but its certificate is for`, `\"gw-1\"`, "MILLRACE_PEER_SHARED_CERT"},
		},
		{
			"a certificate of another authority", authority,
			[]string{"--peer-cert", foreign.Cert, "--peer-key", foreign.Key, "--peer-ca", foreign.CA},
			[]string{"TLS handshake error", "bad certificate"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := trio(t, store, func(cfg *harness.FleetConfig) { cfg.TLS = c.tls })
			f.StartAll(t, 0, 1)
			f.Agree(t, 0, 1)
			f.Start(t, 2, c.args...)
			f.Members[2].Ready(t, func(ctx context.Context) error {
				if f.Members[0].Sees(3)(ctx) == nil {
					t.Fatal("it is a member")
				}
				for _, m := range f.Members {
					if m.Logs(c.want...)(ctx) == nil {
						return nil
					}
				}
				return fmt.Errorf("no log holds %q", c.want)
			})
			for _, m := range f.Members[:2] {
				if err := m.Sees(2)(t.Context()); err != nil {
					t.Error(err)
				}
			}
			ranksRead(t, f, client.Options{Window: 12})
		})
	}
}

// TestPeerPortIsNotForClients sends a browser's request to the port for peers.
func TestPeerPortIsNotForClients(t *testing.T) {
	f := trio(t, packed(t, "dir"), nil)
	f.Start(t, 0)
	for _, path := range []string{"/epoch/0/batch/0", "/", "/readyz", "/metrics"} {
		r, err := harness.Do(t.Context(), http.MethodGet, "http://"+f.Members[0].Peer+path)
		var p struct{ Code, Detail string }
		if err == nil {
			err = json.Unmarshal(r.Body, &p)
		}
		if err != nil || r.Status != http.StatusMisdirectedRequest || p.Code != "peer_port" || !strings.Contains(p.Detail, "--listen") {
			t.Errorf("%s: got %d %s and %v, want 421 peer_port and where to go", path, r.Status, r.Body, err)
		}
	}
}

// TestClusterOfOne checks that a cluster of one gateway serves from the store, and that its cluster
// page lists one member.
func TestClusterOfOne(t *testing.T) {
	store := packed(t, "dir")
	f := trio(t, store, func(c *harness.FleetConfig) { c.Size = 1 })
	f.StartAll(t)
	f.Agree(t)
	ranksRead(t, f, client.Options{Window: 12})
	for _, c := range []struct{ query, want string }{
		{"?rank=1&world_size=1", "rank"},
		{"?rank=3&world_size=3&share=locality", "rank"},
		{"?share=locality&world_size=13&window=12", "share"},
		{"?share=sideways", "share"},
	} {
		if r := f.Members[0].Get(t, batchPath(0, 0)+c.query); r.Status != http.StatusBadRequest || !strings.Contains(string(r.Body), c.want) {
			t.Errorf("%s: got %d %s, want 400 about %s", c.query, r.Status, r.Body, c.want)
		}
	}
}

// TestClusterFlagsThatDoNotFit checks that serve refuses such flags before it starts anything.
func TestClusterFlagsThatDoNotFit(t *testing.T) {
	store := packed(t, "dir")
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--cluster job-a", []string{"--join", "peer-listen"}},
		{"--join 127.0.0.1", []string{"--cluster"}},
		{"--cluster job-a --join elsewhere:x --peer-listen 127.0.0.1:7946 --peer-insecure", []string{"--join", ""}},
		{"--cluster job/a --join 127.0.0.1 --peer-listen 127.0.0.1:7946 --peer-insecure", []string{"job/a"}},
		{"--cluster job-a --join 127.0.0.1 --peer-listen 0.0.0.0:7946 --peer-insecure", []string{"--peer-insecure"}},
		{"--cluster job-a --join 127.0.0.1 --peer-listen 127.0.0.1:7946", []string{"peer-cert"}},
	} {
		r := harness.Run(t, store, append([]string{"serve", "--check", "--dataset", store.Dataset(dataset)}, strings.Fields(c.args)...)...)
		if r.Code != 2 {
			t.Errorf("%s: got exit code %d, want 2\n%s", c.args, r.Code, r.Stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("%s: got %q, want it to name %s", c.args, r.Stderr, want)
			}
		}
	}
}
