package integration_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestSlotPlacesThroughTheGateway requests the positions of samples in 300 epochs of the default
// order. Positions are uniform, and do not depend on the position in the previous epoch. The
// datasets have 2 to 300 chunks, of equal or of log-normal size.
func TestSlotPlacesThroughTheGateway(t *testing.T) {
	for _, chunks := range []int{2, 5, 40, 300} {
		for _, sizes := range []string{"equal", "log-normal"} {
			t.Run(fmt.Sprintf("%d %s chunks", chunks, sizes), func(t *testing.T) {
				store := harness.Open(t, "dir")
				writeShards(t, filepath.Join(store.Path, "lines"), chunks, sizes == "log-normal")
				harness.MustRun(t, store, "index", store.Dataset("lines"))
				chi, correlation := slotPlaces(t, harness.Serve(t, store, "lines"), chunks)
				t.Logf("chi-square of places %.3f times its degrees of freedom, correlation of two epochs %.4f", chi, correlation)
				if chi < .9 || chi > 1.1 || math.Abs(correlation) > .02 {
					t.Errorf("got a chi-square of places of %.3f times its degrees of freedom and a correlation of %.4f, want 0.9 to 1.1 and at most 0.02", chi, correlation)
				}
			})
		}
	}
}

// writeShards writes shards of JSON Lines with about 6,000 samples in total. Each shard is one
// chunk.
func writeShards(t *testing.T, dir string, shards int, lognormal bool) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, uint64(shards)))
	for i := range shards {
		lines := 6000 / shards
		if lognormal {
			lines = 1 + int(float64(lines)*math.Exp(.8*rnd.NormFloat64()-.32))
		}
		text := strings.Repeat("{\"class\": 1}\n", lines)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.jsonl", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// slotPlaces requests the positions of some samples, and returns two means over these. chiSquare is
// the chi-square of 16 bins of an epoch, divided by its degrees of freedom. correlation is that of
// consecutive epochs.
func slotPlaces(t *testing.T, g *harness.Gateway, chunks int) (chiSquare, correlation float64) {
	t.Helper()
	const epochs, asked, bins = 300, 240, 16
	var about struct{ Chunks, Samples int }
	if r := g.MustGet(t, "/v1/datasets/lines"); json.Unmarshal(r.Body, &about) != nil || about.Chunks != chunks {
		t.Fatalf("got %s, want %d chunks", r.Body, chunks)
	}
	all := g.Manifest(t, "/v1/datasets/lines/epochs/0/batches/0", fmt.Sprintf("?shuffle=none&batch_size=%d", about.Samples))
	n := float64(len(all))
	for i := range asked {
		key := all[(2*i+1)*len(all)/(2*asked)].Key
		r := g.MustGet(t, fmt.Sprintf("/v1/datasets/lines/occurrences?key=%s&epochs=0-%d", url.QueryEscape(key), epochs-1))
		var said struct{ Occurrences []struct{ Position int } }
		if err := json.Unmarshal(r.Body, &said); err != nil || len(said.Occurrences) != epochs {
			t.Fatalf("occurrences of %s: got %d, %v, want %d", key, len(said.Occurrences), err, epochs)
		}
		var count [bins]float64
		before := 0.
		for _, o := range said.Occurrences {
			count[o.Position*bins/len(all)]++
			from := (float64(o.Position) - (n-1)/2) / math.Sqrt(n*n/12)
			correlation += from * before / (epochs - 1) / asked
			before = from
		}
		for _, c := range count {
			const want = float64(epochs) / bins
			chiSquare += (c - want) * (c - want) / want / (bins - 1) / asked
		}
	}
	return chiSquare, correlation
}
