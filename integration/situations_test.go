package integration_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// scene is a set of gateways under a load.
type scene struct {
	load     func(context.Context)
	gateways []*harness.Gateway
}

// situation is a fault, with the alerts that must report it.
type situation struct {
	name   string
	alerts []string
	meet   func(t *testing.T) scene
}

func situations() []situation {
	one := func(name, alert string, meet func(*testing.T) scene) situation {
		return situation{name, []string{alert}, meet}
	}
	return []situation{
		{"all is well", nil, healthy},
		one("the store is slow", "MillraceReadersWait", slowReads),
		one("a rank is slow", "MillraceReaderBehind", slowRank),
		{"the store denies", []string{"MillraceServerErrors", "MillraceStoreErrors"}, func(t *testing.T) scene { return storeFails(t, denies) }},
		{"the store is gone", []string{"MillraceServerErrors", "MillraceStoreErrors"}, func(t *testing.T) scene { return storeFails(t, breaksOff) }},
		one("memory is too small for the readers", "MillraceCacheThrash", thrash),
		one("bodies hold all memory", "MillraceBudgetFull", fullBudget),
		one("the certificate for clients expires", "MillraceCertificateExpires", clientsCertificate),
		one("the certificate for peers expires", "MillraceCertificateExpires", peersCertificate),
		one("new certificate files are of no use", "MillraceCertificateRefused", refusedCertificate),
		one("the access file has faults", "MillraceAccessFileRefused", faultyAccess),
		one("an issuer is away", "MillraceIssuerWithoutKeys", issuerAway),
		one("a drain does not end", "MillraceDrainStuck", stuckDrain),
		one("the gateway has a bug", "MillracePanics", panics),
		one("readers leave in the middle", "MillraceAnswersCut", leavers),
		one("the disk takes nothing", "MillraceDiskOff", deadDisk),
		one("the disk returns wrong bytes", "MillraceDiskFaults", wrongDisk),
		{"another gateway does not answer", []string{"MillraceMembersGone", "MillracePeersFail"}, silentPeer},
		one("a gateway is killed", "MillraceMembersGone", killedMember),
		one("the store of one dataset denies at the start", "MillraceDatasetNotOpen", closedDataset),
		one("the file of datasets has faults", "MillraceReloadFails", faultyDatasets),
	}
}

// pause waits, like a trainer that computes.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// trains reads batches one after another, in epochs of n batches, and pauses after each. It ignores
// errors.
func trains(g *harness.Gateway, n int, think time.Duration, query string) func(context.Context) {
	return func(ctx context.Context) {
		for m := 0; ctx.Err() == nil; m++ {
			_, _ = g.Try(ctx, batchPath(m/n, m%n)+query)
			pause(ctx, think)
		}
	}
}

// together runs loads in parallel.
func together(loads ...func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		var all sync.WaitGroup
		for _, load := range loads {
			all.Go(func() { load(ctx) })
		}
		all.Wait()
	}
}

// at calls a function once, before it runs a load.
func at(do func(), load func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		do()
		load(ctx)
	}
}

const think = 50 * time.Millisecond

// packedLarger packs a dataset of about 12 MB in chunks of 64 KiB.
func packedLarger(t *testing.T, kind string) *harness.Store {
	t.Helper()
	files, _ := harness.Files(t, 800, 20000)
	store := harness.Open(t, kind)
	harness.Pack(t, store, files, dataset, "--shard-size", "1MiB", "--chunk-size", "64KiB")
	return store
}

// lasting returns a change that makes a certificate valid for the given number of days.
func lasting(days int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Duration(days) * 24 * time.Hour) }
}

// healthy is a cluster of two gateways with disks over S3, and a gateway with TLS and an access
// file. Together they export all metrics. All of them have read the dataset once.
func healthy(t *testing.T) scene {
	store, ca := packed(t, "versitygw"), certtest.New(t)
	f := harness.NewFleet(t, harness.FleetConfig{Store: store, Dataset: dataset, Size: 2, TLS: ca, Args: []string{"--cache-size", "64MiB"}})
	var loads []func(context.Context)
	var all []*harness.Gateway
	for i, m := range f.Members {
		pair := ca.Issue(t, t.TempDir(), func(c *x509.Certificate) {
			lasting(90)(c)
			c.DNSNames = append(c.DNSNames, m.Name)
		})
		f.Start(t, i, "--peer-cert", pair.Cert, "--peer-key", pair.Key, "--disk-cache", t.TempDir(), "--disk-cache-size", "64MiB")
		loads, all = append(loads, trains(m.Gateway, 25, think, share(16, i, 2))), append(all, m.Gateway)
	}
	f.Agree(t)
	access := filepath.Join(t.TempDir(), "access.yaml")
	put(t, access, "grants:\n  - {who: [anonymous], datasets: [\"*\"], rights: [read, admin]}\n")
	datasets := filepath.Join(t.TempDir(), "datasets.yaml")
	put(t, datasets, "datasets: {}\n")
	alone := harness.ServeTLS(t, ca.Issue(t, t.TempDir(), lasting(90)), ca.Pool(), store, dataset, "--access", access, "--datasets", datasets, "--cache-size", "64MiB")
	loads, all = append(loads, trains(alone, 25, think, share(16, 0, 1))), append(all, alone)
	for _, g := range all {
		for m := range 25 {
			g.MustGet(t, batchPath(0, m)+share(16, 0, 1))
		}
	}
	return scene{together(loads...), all}
}

func slowReads(t *testing.T) scene {
	var fault atomic.Pointer[http.HandlerFunc]
	g := serve(t, behind(t, packedLarger(t, "versitygw"), &fault), "--no-prefetch")
	slow := slowStore(&atomic.Bool{})
	fault.Store(&slow)
	return scene{trains(g, 400, think/10, share(2, 0, 1)), []*harness.Gateway{g}}
}

func slowRank(t *testing.T) scene {
	g := serve(t, packed(t, "dir"))
	for m := range 25 {
		g.MustGet(t, batchPath(0, m)+share(16, 0, 1)) // from now on everything is in memory
	}
	return scene{together(trains(g, 200, think/10, share(2, 0, 2)), trains(g, 200, 10*think, share(2, 1, 2))), []*harness.Gateway{g}}
}

func denies(_ http.ResponseWriter, r *http.Request) {
	sign := r.Header.Get("Authorization")
	r.Header.Set("Authorization", sign[:len(sign)-4]+"beef")
}

func breaksOff(_ http.ResponseWriter, r *http.Request) {
	answered(r)
	panic(http.ErrAbortHandler)
}

func storeFails(t *testing.T, fault http.HandlerFunc) scene {
	var now atomic.Pointer[http.HandlerFunc]
	g := serve(t, behind(t, packedLarger(t, "versitygw"), &now), "--no-prefetch")
	return scene{at(func() { now.Store(&fault) }, trains(g, 200, 2*think, share(4, 0, 1))), []*harness.Gateway{g}}
}

func thrash(t *testing.T) scene {
	files, _ := harness.Files(t, 800, 64<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "8MiB", "--chunk-size", "256KiB", "--batch-size", "8")
	g := harness.Serve(t, store, dataset, "--cache-size", "16MiB")
	var loads []func(context.Context)
	for seed := range 6 {
		loads = append(loads, trains(g, 100, think, fmt.Sprintf("?batch_size=8&seed=%d", seed)))
	}
	return scene{together(loads...), []*harness.Gateway{g}}
}

func fullBudget(t *testing.T) scene {
	g := harness.Serve(t, heavy(t), dataset, "--cache-size", "32MiB")
	var loads []func(context.Context)
	for r := range 6 {
		loads = append(loads, func(ctx context.Context) {
			slowly(ctx, t, g, fmt.Sprintf("/epoch/%d/batch/%d?batch_size=36&shuffle=full", r, r), 100<<10, func() {})
		})
	}
	return scene{together(loads...), []*harness.Gateway{g}}
}

// heavy packs a dataset of large samples: a batch of 36 has about 7 MB.
func heavy(t *testing.T) *harness.Store {
	t.Helper()
	files, _ := harness.Files(t, 400, 256<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "32MiB", "--chunk-size", "2MiB", "--batch-size", "8")
	return store
}

func clientsCertificate(t *testing.T) scene {
	store, ca := packed(t, "dir"), certtest.New(t)
	g := harness.ServeTLS(t, ca.Issue(t, t.TempDir(), lasting(6)), ca.Pool(), store, dataset, "--cache-size", "64MiB")
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

func peersCertificate(t *testing.T) scene { // the default peer certificate is valid for a day
	f := harness.NewFleet(t, harness.FleetConfig{Store: packed(t, "dir"), Dataset: dataset, Size: 1, TLS: certtest.New(t), Args: []string{"--cache-size", "64MiB"}})
	f.StartAll(t)
	g := f.Members[0].Gateway
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

func refusedCertificate(t *testing.T) scene {
	store, ca := packed(t, "dir"), certtest.New(t)
	pair := ca.Issue(t, t.TempDir(), lasting(90))
	g := harness.ServeTLS(t, pair, ca.Pool(), store, dataset, "--cache-size", "64MiB")
	spoil := func() {
		if err := os.WriteFile(pair.Cert, []byte("-----BEGIN CERT"), 0o600); err != nil {
			t.Error(err)
		}
	}
	return scene{at(spoil, trains(g, 25, think, share(16, 0, 1))), []*harness.Gateway{g}}
}

func faultyAccess(t *testing.T) scene {
	access := filepath.Join(t.TempDir(), "access.yaml")
	put(t, access, "grants:\n  - {who: [anonymous], datasets: [\"*\"], rights: [read, admin]}\n")
	g := serve(t, packed(t, "dir"), "--access", access)
	return scene{at(func() { put(t, access, "grants: [") }, trains(g, 25, think, share(16, 0, 1))), []*harness.Gateway{g}}
}

// killedMember is a member of a cluster whose other member is killed.
func killedMember(t *testing.T) scene {
	f := harness.NewFleet(t, harness.FleetConfig{Store: packed(t, "dir"), Dataset: dataset, Size: 2, Args: []string{"--cache-size", "64MiB"}})
	f.StartAll(t)
	f.Agree(t)
	g := f.Members[0].Gateway
	for m := range 25 {
		g.MustGet(t, batchPath(0, m)+share(16, 0, 1)) // from now on everything is in memory
	}
	f.Members[1].Kill()
	f.Members[0].Ready(t, func(context.Context) error {
		if got := g.Metric(t, "millrace_cluster_members_gone", ""); got != 1 {
			return fmt.Errorf("%v members are gone", got)
		}
		return nil
	})
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

// closedDataset is a gateway whose second dataset has not opened.
func closedDataset(t *testing.T) scene {
	store := packed(t, "versitygw")
	var fault atomic.Pointer[http.HandlerFunc]
	denied := http.HandlerFunc(denies)
	fault.Store(&denied)
	failing := store.Dataset(dataset) + "?endpoint=" + strings.TrimPrefix(behind(t, store, &fault).Env[0], "AWS_ENDPOINT_URL_S3=")
	g := serve(t, store, "--dataset", "bad="+failing)
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

func faultyDatasets(t *testing.T) scene {
	file := filepath.Join(t.TempDir(), "datasets.yaml")
	put(t, file, "datasets: {}\n")
	g := serve(t, packed(t, "dir"), "--datasets", file)
	return scene{at(func() { put(t, file, "datasets: [") }, trains(g, 25, think, share(16, 0, 1))), []*harness.Gateway{g}}
}

func issuerAway(t *testing.T) scene {
	access := filepath.Join(t.TempDir(), "access.yaml")
	put(t, access, "issuers: [{name: corp, issuer: \"https://"+harness.FreeAddress(t)+"\", audience: sid1, groups: groups}]\n"+
		"grants:\n  - {who: [anonymous], datasets: [\"*\"], rights: [read, admin]}\n  - {who: [\"jwt:corp#sid1\"], rights: [admin]}\n")
	g := serve(t, packed(t, "dir"), "--access", access)
	return scene{trains(g, 25, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

func stuckDrain(t *testing.T) scene {
	g := serve(t, packed(t, "dir"), "--lame-duck", "1h")
	return scene{at(g.Terminate, trains(g, 25, think, share(16, 0, 1))), []*harness.Gateway{g}}
}

// panics is a gateway built with a bug.
func panics(t *testing.T) scene {
	const head = "func (g *Gateway) getRoot(x *exchange) error {\n"
	buggy := harness.Planted(t, "..", harness.Edit{File: "gateway/page.go", Text: head, Other: head + "\tpanic(\"a bug\")\n"})
	g := harness.ServeUnder(t, `exec `+buggy+` "$@"`, packed(t, "dir"), dataset, "--cache-size", "64MiB")
	bug := func() { _, _ = g.Try(t.Context(), "/") }
	return scene{together(trains(g, 25, think, share(16, 0, 1)), func(ctx context.Context) { pause(ctx, 10*think); bug() }), []*harness.Gateway{g}}
}

func leavers(t *testing.T) scene {
	g := harness.Serve(t, heavy(t), dataset, "--cache-size", "128MiB")
	leave := func(ctx context.Context) {
		for m := 0; ctx.Err() == nil; m++ {
			once, cancel := context.WithCancel(ctx)
			req, err := http.NewRequestWithContext(once, http.MethodGet, fmt.Sprintf("%s/epoch/0/batch/%d?batch_size=36", g.URL, m%11), nil)
			if err != nil {
				t.Error(err)
			}
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
				resp.Body.Close()
			}
			cancel()
			pause(ctx, 4*think)
		}
	}
	return scene{together(leave, trains(g, 50, 4*think, share(8, 0, 1))), []*harness.Gateway{g}}
}

func deadDisk(t *testing.T) scene {
	files, _ := harness.Files(t, 200, 20000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "2MiB", "--chunk-size", "512KiB")
	g := harness.ServeUnder(t, `ulimit -f 256 && exec "$0" "$@"`, store, dataset, append(withDisk(t.TempDir()), "--cache-size", "64MiB")...)
	return scene{trains(g, 12, think, share(16, 0, 1)), []*harness.Gateway{g}}
}

// wrongDisk corrupts some files, but too few for the gateway to turn the disk off.
func wrongDisk(t *testing.T) scene {
	dir := t.TempDir()
	files, _ := harness.Files(t, 400, 128<<10)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "8MiB", "--chunk-size", "1MiB", "--batch-size", "8")
	g := harness.Serve(t, store, dataset, append(withDisk(dir), "--cache-size", "16MiB")...)
	for m := range 50 {
		g.MustGet(t, batchPath(0, m)+"?batch_size=8&shuffle=none")
	}
	g.Ready(t, func(context.Context) error {
		if got := g.Metric(t, "millrace_disk_chunks", ""); got < 20 {
			return fmt.Errorf("%v chunks are on disk", got)
		}
		return nil
	})
	spoil := func() {
		chunks, err := filepath.Glob(filepath.Join(dir, "chunks", "*", "*"))
		if err != nil || len(chunks) < 10 {
			t.Errorf("got %d chunks on disk, %v", len(chunks), err)
		}
		for _, name := range chunks[:3] {
			if err := os.WriteFile(name, []byte(strings.Repeat("spoilt", 1000)), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	return scene{at(spoil, trains(g, 50, think, "?batch_size=8&shuffle=none")), []*harness.Gateway{g}}
}

// silentPeer freezes a member of a cluster.
func silentPeer(t *testing.T) scene {
	f := harness.NewFleet(t, harness.FleetConfig{Store: packedLarger(t, "dir"), Dataset: dataset, Size: 2, Args: []string{"--cache-size", "64MiB", "--no-prefetch"}})
	f.StartAll(t)
	f.Agree(t)
	g := f.Members[0].Gateway
	t.Cleanup(f.Members[1].Kill)
	loads := []func(context.Context){func(ctx context.Context) {
		pause(ctx, 10*think)
		f.Members[1].Freeze()
	}}
	for seed := range 8 {
		loads = append(loads, trains(g, 400, think, fmt.Sprintf("%s&seed=%d", share(2, 0, 1), seed)))
	}
	return scene{together(loads...), []*harness.Gateway{g}}
}
