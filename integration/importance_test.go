package integration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// frozen is a gateway's description of a snapshot of weights.
type frozen struct {
	Snapshot               string
	Reported, Samples      uint64
	Coverage               float64
	Effective              float64 `json:"effective_sample_size"`
	HotSamples             uint64  `json:"hot_samples"`
	Generation, Plan, Base string
}

func importance(set string) string { return "/v1/datasets/" + set + "/importance" }

// lossReports returns request bodies that report a loss for every position of an epoch once, from
// world ranks. The loss is a function of the position.
func lossReports(t *testing.T, g *harness.Gateway, set string, epoch, world int) [][]byte {
	t.Helper()
	var all [][]byte
	for m := 0; ; m++ {
		for rank := range world {
			path := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d/manifest", set, epoch, m) + share(64, rank, world)
			a := g.Get(t, path)
			if a.Status == http.StatusNotFound {
				return all
			}
			var manifest struct{ Samples []harness.Sample }
			if err := json.Unmarshal(a.Body, &manifest); err != nil || a.Status != http.StatusOK {
				t.Fatalf("%s: got status %d and %v", path, a.Status, err)
			}
			losses := make([]float64, len(manifest.Samples))
			for i, s := range manifest.Samples {
				losses[i] = float64(s.Position*7919%1009) / 31
			}
			body, err := json.Marshal(map[string]any{"url": a.Header.Get("Content-Location"), "losses": losses})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, body)
		}
	}
}

// freeze creates a snapshot of an epoch's losses.
func freeze(t *testing.T, g *harness.Gateway, set string, epoch, status int) frozen {
	t.Helper()
	plan := g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/%d?batch_size=64", set, epoch)).Header.Get("Content-Location")
	a := g.Post(t, importance(set)+"/snapshots", fmt.Appendf(nil, `{"url":%q,"hot_share":0.1,"repeat":3}`, plan))
	if a.Status != status {
		t.Fatalf("freeze epoch %d of %s: got status %d %s, want %d", epoch, set, a.Status, a.Body, status)
	}
	var f frozen
	if err := json.Unmarshal(a.Body, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func report(t *testing.T, g *harness.Gateway, set string, body []byte) {
	t.Helper()
	if a := g.Post(t, importance(set), body); a.Status != http.StatusOK {
		t.Fatalf("report %.200s: got status %d %s, want 200", body, a.Status, a.Body)
	}
}

// TestImportance reports the losses of an epoch through two gateways, freezes them, and reads the
// next epoch with these weights. Both gateways and a third, just started, return the same bytes. A
// copy of the dataset that receives the same losses in another order and from another number of
// ranks has the same snapshot.
func TestImportance(t *testing.T) {
	readOnEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		one, two := serve(t, store), serve(t, store)
		for i, body := range lossReports(t, one, dataset, 0, 3) {
			report(t, []*harness.Gateway{one, two}[i%2], dataset, body)
			report(t, []*harness.Gateway{two, one}[i%2], dataset, body) // a repeat through the other gateway
		}
		made := freeze(t, one, dataset, 0, http.StatusCreated)
		if n := uint64(sampleCount()); made.Reported != n || made.Samples != n || made.HotSamples != n/10 || made.Coverage < .7 || made.Coverage >= 1 {
			t.Errorf("got %+v, want all %d samples reported, a tenth of them hot, and coverage below 1", made, n)
		}
		if again := freeze(t, two, dataset, 0, http.StatusOK); again != made {
			t.Errorf("got %+v from the second gateway, want %+v", again, made)
		}
		three := serve(t, store)
		draws, came := 0, map[string]int{}
		for m := range batches(t, one, 1, 64) {
			for rank := range 2 {
				path := batchPath(1, m) + share(64, rank, 2) + "&balance=bytes&importance=" + made.Snapshot
				for _, name := range members(t, r.content, path, one.MustGet(t, path)) {
					came[name]++
				}
				for _, g := range []*harness.Gateway{two, three} {
					g.MustGet(t, path)
				}
				r.right(path)
				draws += len(one.Manifest(t, batchPath(1, m), path[strings.IndexByte(path, '?'):]))
			}
		}
		checkDraws(t, came, draws, made.Coverage)
	})
}

// checkDraws compares the number of deliveries with the number of draws, and the number of distinct
// samples with the promised coverage.
func checkDraws(t *testing.T, came map[string]int, draws int, coverage float64) {
	t.Helper()
	n, different, most := 0, 0, 0
	for name, times := range came {
		if strings.HasSuffix(name, ".bin") {
			n, different, most = n+times, different+1, max(most, times)
		}
	}
	total := float64(sampleCount())
	if n != sampleCount() || draws != n {
		t.Errorf("got %d samples, %d in manifests, want %d draws", n, draws, sampleCount())
	}
	if got := float64(different) / total; got < coverage-.1 || got > coverage+.1 || most < 2 {
		t.Errorf("got %.3f of the samples, one of them %d times, want %.3f and some more than once", got, most, coverage)
	}
}

func TestSameLossesMakeTheSameSnapshot(t *testing.T) {
	files, _ := harness.Files(t, 400, 4000)
	store := harness.Open(t, "dir")
	var want frozen
	for i, c := range []struct {
		set   string
		world int
	}{{"first", 3}, {"copy", 5}} {
		harness.Pack(t, store, files, c.set, small()...)
		g := harness.Serve(t, store, c.set, "--cache-size", "64MiB")
		bodies := lossReports(t, g, c.set, 0, c.world)
		if i == 1 {
			slices.Reverse(bodies)
		}
		for _, body := range bodies {
			report(t, g, c.set, body)
		}
		made := freeze(t, g, c.set, 0, http.StatusCreated)
		if i == 0 {
			want = made
		}
		if made != want {
			t.Errorf("%s: got %+v, want %+v", c.set, made, want)
		}
		g.Kill()
	}
}

// TestReadOnlyBucketKeepsLosses reports losses to a gateway whose bucket refuses writes. The losses
// wait on its disk and survive a kill. The first gateway with that directory and write access sends
// them.
func TestReadOnlyBucketKeepsLosses(t *testing.T) {
	files, _ := harness.Files(t, 400, 4000)
	store := harness.Open(t, "versitygw")
	harness.Pack(t, store, files, dataset, small()...)
	log := t.TempDir()
	sealed := serve(t, store.ReadOnly(t), "MILLRACE_LOSS_LOG="+log)
	bodies := lossReports(t, sealed, dataset, 0, 2)
	refused := func(path string, body []byte, words string) {
		t.Helper()
		a := sealed.Post(t, path, body)
		if a.Status != http.StatusForbidden || !strings.Contains(string(a.Body), `"code":"read_only"`) || !strings.Contains(string(a.Body), words) {
			t.Fatalf("POST %s: got status %d %s, want 403 read_only and %q", path, a.Status, a.Body, words)
		}
	}
	for _, body := range bodies {
		refused(importance(dataset), body, `"kept":true`)
	}
	plan := sealed.MustGet(t, "/v1/datasets/"+dataset+"/epochs/0?batch_size=64").Header.Get("Content-Location")
	refused(importance(dataset)+"/snapshots", fmt.Appendf(nil, `{"url":%q}`, plan), "is read-only")
	sealed.MustGet(t, batchPath(0, 0)) // routes that write nothing still work
	sealed.Kill()
	open := serve(t, store, "MILLRACE_LOSS_LOG="+log)
	if made := freeze(t, open, dataset, 0, http.StatusCreated); made.Reported != 400 {
		t.Errorf("got %+v, want the losses of 400 positions", made)
	}
}
