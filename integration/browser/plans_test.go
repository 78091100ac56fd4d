package browser_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// snapshot reports a loss for each sample, with the largest for the first, and returns the name of
// the frozen weights.
func snapshot(t *testing.T, g *harness.Gateway, samples int) string {
	t.Helper()
	losses := make([]int, samples)
	losses[0] = 1000
	about := "/v1/datasets/" + dataset + "/importance"
	url := g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/0/batches/0?batch_size=%d", dataset, samples)).Header.Get("Content-Location")
	body, err := json.Marshal(map[string]any{"url": url, "losses": losses})
	if err != nil {
		t.Fatal(err)
	}
	if a := g.Post(t, about, body); a.Status != 200 {
		t.Fatalf("report losses: got %d %s", a.Status, a.Body)
	}
	var made struct{ Snapshot string }
	unmarshal(t, string(g.Post(t, about+"/snapshots", fmt.Appendf(nil, `{"url":%q,"hot_share":0.1,"repeat":9}`, url)).Body), &made)
	return made.Snapshot
}

// TestBatch_ShowsPlans shows batches of plans in which samples repeat, are missing or move. There
// is one tile for each position of the manifest, and each tile opens.
func TestBatch_ShowsPlans(t *testing.T) {
	const samples = 24
	g := harness.Serve(t, pictures(t, samples), dataset, "--cache-size", "64MiB")
	v := open(t).tab(t, g.URL)
	v.begin()
	for _, c := range []struct {
		name, plan string
		tiles      int
		again      bool // a sample occurs more than once
	}{
		{"padded", "batch_size=32&tail=pad", 32, true},
		{"by importance", "batch_size=24&importance=" + snapshot(t, g, samples), 24, true},
		{"a part of a split", "batch_size=64&subset=" + harness.Escape("train=1,val=1:train"), 11, false},
		{"some samples", "batch_size=64&shuffle=none&subset=" + harness.Escape("samples:3-5,7"), 4, false},
		{"bad samples left out", "batch_size=24&shuffle=none&quarantine=" + harness.Escape("samples:0,1"), 24, true},
		{"a rank's share", "batch_size=16&world_size=2&rank=1&balance=bytes", 8, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.t = t
			found := v.walks(dataset, "", c.plan)
			for _, fault := range found.Faults {
				t.Errorf("%.600s", fault)
			}
			var tiles, keys []string
			for _, m := range g.Manifest(t, "/v1/datasets/"+dataset+"/epochs/0/batches/0", "?"+c.plan) {
				tiles, keys = append(tiles, fmt.Sprint(m.Position, " ", m.Key, " shown")), append(keys, m.Key)
			}
			if !slices.Equal(found.Tiles, tiles) || len(tiles) == 0 {
				t.Errorf("got tiles %q, want %q", found.Tiles, tiles)
			}
			slices.Sort(keys)
			if again := len(slices.Compact(slices.Clone(keys))) < len(keys); len(keys) != c.tiles || again != c.again {
				t.Errorf("got %d samples, some more than once: %v; want %d, %v", len(keys), again, c.tiles, c.again)
			}
			v.clean(c.name)
			v.forget()
		})
	}
}
