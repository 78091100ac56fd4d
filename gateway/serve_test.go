package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/objstore"
)

// generations is a rig whose dataset photos has three generations: the one of the rig, a larger
// one, and one whose index no longer exists.
type generations struct {
	*rig
	older  gateway.Dataset
	newer  gateway.Dataset
	opened []string // on demand
	closed []string
}

const goneGeneration = "00000000000000000000000000000000000000000000000000000000000000ff"

func newGenerations(t *testing.T, edit func(*gateway.Config)) *generations {
	t.Helper()
	g := &generations{}
	g.rig = newRig(t, 60, 800, func(c *gateway.Config) {
		g.older = c.Datasets[0]
		c.Open = func(_ context.Context, name, generation string) (gateway.Dataset, error) {
			g.opened = append(g.opened, name)
			if generation == g.older.Index.Generation() {
				return g.closing(g.older), nil
			}
			return gateway.Dataset{}, objstore.ErrNotFound
		}
		c.Datasets[0] = g.closing(g.older)
		if edit != nil {
			edit(c)
		}
	})
	shard := member(t, "late.bin", nil, 0)
	if _, err := g.store.Put(t.Context(), "data/train-9.tar", bytes.NewReader(append(shard, make([]byte, 1024)...)), int64(len(shard)+1024), objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := build.Run(t.Context(), g.store, "data/", build.Options{ChunkSize: 6400, Defaults: g.index.Defaults()}); err != nil {
		t.Fatal(err)
	}
	x, err := chunkindex.Open(t.Context(), g.store, "data/", chunkindex.OpenOptions{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	g.newer = g.closing(gateway.Dataset{Name: "photos", Index: x, Source: &source{index: x, store: prefixStore{g.store, "data/"}}})
	return g
}

// closing records when a dataset is closed.
func (g *generations) closing(d gateway.Dataset) gateway.Dataset {
	generation := d.Index.Generation()
	d.Close = func() { g.closed = append(g.closed, generation) }
	return d
}

// TestADatasetThatGrows: responses to URLs with the older generation do not change. URLs without a
// generation return the newer one.
func TestADatasetThatGrows(t *testing.T) {
	g := newGenerations(t, nil)
	old, fresh := g.older.Index.Generation(), g.newer.Index.Generation()
	before := g.do("GET", "/epoch/3/batch/1?generation="+old).body
	if err := g.gateway.Serve([]gateway.Dataset{g.newer}, nil); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/epoch/3/batch/1?generation=" + old, "/v1/datasets/photos/epochs/3/batches/1?generation=" + old} {
		if a := g.do("GET", path); a.StatusCode != http.StatusOK || !bytes.Equal(a.body, before) || a.Header.Get("Millrace-Generation") != old {
			t.Errorf("%s: got %d of generation %.12s, want the bytes of before", path, a.StatusCode, a.Header.Get("Millrace-Generation"))
		}
	}
	if got := g.do("GET", "/v1/datasets/photos/epochs/0/mds/batch_size=8&generation="+old+"/index.json").Header.Get("Millrace-Generation"); got != old {
		t.Errorf("a directory of the older generation: got %.12s, want %.12s", got, old)
	}
	if got := g.do("GET", "/epoch/3/batch/1").Header.Get("Millrace-Generation"); got != fresh {
		t.Errorf("got generation %.12s without a name, want %.12s", got, fresh)
	}
	var info struct {
		Generation  string
		Generations []struct{ Generation string }
	}
	g.json("/v1/datasets/photos", &info)
	if info.Generation != fresh || len(info.Generations) != 2 || info.Generations[0].Generation != fresh || info.Generations[1].Generation != old {
		t.Errorf("got %+v, want the new generation and then the older one", info)
	}
	if len(g.opened) != 0 || len(g.closed) != 0 {
		t.Errorf("opened %v and closed %v, want nothing", g.opened, g.closed)
	}
}

// TestAnOlderGenerationIsOpenedOnDemand: the gateway opens an older generation on demand if its
// index exists.
func TestAnOlderGenerationIsOpenedOnDemand(t *testing.T) {
	var edited gateway.Dataset
	g := newGenerations(t, func(c *gateway.Config) { edited = c.Datasets[0] })
	grown := newRigOf(t, g, g.newer)
	old := edited.Index.Generation()
	want := g.do("GET", "/epoch/3/batch/1?generation="+old).body
	for range 2 {
		if a := grown.do("GET", "/epoch/3/batch/1?generation="+old); a.StatusCode != http.StatusOK || !bytes.Equal(a.body, want) {
			t.Errorf("got %d %.100s, want the bytes of the generation", a.StatusCode, a.body)
		}
	}
	checkProblem(t, grown.do("GET", "/epoch/3/batch/1?generation="+goneGeneration), http.StatusNotFound, "generation_gone", false)
	checkProblem(t, grown.do("GET", "/epoch/3/batch/1?generation="+goneGeneration), http.StatusNotFound, "generation_gone", false)
	if len(g.opened) != 2 {
		t.Errorf("opened %d times, want each once", len(g.opened))
	}
	checkProblem(t, grown.do("GET", "/epoch/3/batch/1?generation=abc"), http.StatusBadRequest, "invalid_argument", false)
	if len(g.opened) != 2 {
		t.Error("something that is no generation was opened")
	}
}

// newRigOf returns a rig that serves one dataset, and opens the generations of g.
func newRigOf(t *testing.T, g *generations, d gateway.Dataset) *rig {
	return newRig(t, 60, 800, func(c *gateway.Config) {
		c.Datasets[0], c.Mix = d, mix
		c.Open = func(_ context.Context, name, generation string) (gateway.Dataset, error) {
			g.opened = append(g.opened, name)
			if generation == g.older.Index.Generation() {
				return g.closing(g.older), nil
			}
			return gateway.Dataset{}, objstore.ErrNotFound
		}
	})
}

// TestServeRefusesAsAWhole: an invalid configuration has no effect.
func TestServeRefusesAsAWhole(t *testing.T) {
	g := newGenerations(t, nil)
	err := g.gateway.Serve([]gateway.Dataset{g.newer}, []gateway.Mixture{{Name: "both", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "texts", Share: 1}}}}})
	if err == nil || !strings.Contains(err.Error(), `mixture "both"`) {
		t.Errorf("got %v, want an error of the mixture", err)
	}
	if err := g.gateway.Serve(nil, nil); err == nil {
		t.Error("got no error of a gateway without datasets")
	}
	if got := g.do("GET", "/epoch/0/batch/0").Header.Get("Millrace-Generation"); got != g.older.Index.Generation() {
		t.Errorf("got generation %.12s, want what was served before", got)
	}
}

// TestWhatIsOpenStandsForWhatIsGiven: if Serve gets the same generation again, it closes the given
// dataset immediately and keeps the open one.
func TestWhatIsOpenStandsForWhatIsGiven(t *testing.T) {
	g := newGenerations(t, nil)
	again := g.closing(gateway.Dataset{Name: "photos", Index: g.older.Index, Source: &source{}})
	if err := g.gateway.Serve([]gateway.Dataset{again}, nil); err != nil {
		t.Fatal(err)
	}
	if want := []string{g.older.Index.Generation()}; !slices.Equal(g.closed, want) {
		t.Errorf("closed %v, want what was given", g.closed)
	}
	if a := g.do("GET", "/epoch/0/batch/0"); a.StatusCode != http.StatusOK {
		t.Errorf("got %d, want the batch from the source of before", a.StatusCode)
	}
}

// TestAnotherOriginTakesItsPlace: a dataset with the same generation and a new origin is read from
// the new origin. The open dataset is not closed yet.
func TestAnotherOriginTakesItsPlace(t *testing.T) {
	g := newGenerations(t, nil)
	moved := g.closing(gateway.Dataset{Name: "photos", Index: g.older.Index, Source: &source{before: func(context.Context) error { return objstore.ErrUnavailable }}, Origin: "elsewhere"})
	if err := g.gateway.Serve([]gateway.Dataset{moved}, nil); err != nil {
		t.Fatal(err)
	}
	if a := g.do("GET", "/epoch/0/batch/0"); a.StatusCode != http.StatusServiceUnavailable || len(g.closed) > 0 {
		t.Errorf("got %d and closed %v, want an error of the store of now", a.StatusCode, g.closed)
	}
}

func TestReload(t *testing.T) {
	var fault error
	asked := "nothing"
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		generation := c.Datasets[0].Index.Generation()
		c.Reload = func(_ context.Context, only string) ([]gateway.Change, error) {
			asked = only
			return []gateway.Change{{Name: "photos", Generation: generation, Change: "none"}}, fault
		}
	})
	for query, want := range map[string]string{"": "", "?dataset=photos": "photos"} {
		if a := r.do("POST", "/v1/reload"+query); a.StatusCode != http.StatusOK || !strings.Contains(string(a.body), `"change":"none"`) || asked != want {
			t.Errorf("%s: got %d %s for %q, want what has changed of %q", query, a.StatusCode, a.body, asked, want)
		}
	}
	checkProblem(t, r.do("POST", "/v1/reload?set=photos"), http.StatusBadRequest, "invalid_argument", false)
	fault = errors.New("the file is not YAML")
	if p := checkProblem(t, r.do("POST", "/v1/reload"), http.StatusConflict, "reload_refused", false); !strings.HasPrefix(p.Detail, "the file is not YAML; ") {
		t.Errorf("got %q, want the reason", p.Detail)
	}
	checkProblem(t, r.do("GET", "/v1/reload"), http.StatusMethodNotAllowed, "method_not_allowed", false)
	checkProblem(t, newRig(t, 20, 800, nil).do("POST", "/v1/reload"), http.StatusNotFound, "not_found", false)
}
