package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// mixedRig serves photos, scans (the same chunks under another name) and mixtures of both. Each has
// its own source, so that the requested chunks of each are visible.
func mixedRig(t *testing.T, all ...gateway.Mixture) (*rig, *source) {
	t.Helper()
	var other *source
	t.Cleanup(func() { // after the server is closed
		if n := other.open.Load(); n != 0 {
			t.Errorf("got %d bodies left open, want 0", n)
		}
	})
	r := newRig(t, 50, 800, func(cfg *gateway.Config) {
		photos := cfg.Datasets[0].Source.(*source)
		other = &source{index: photos.index, store: photos.store}
		cfg.Datasets = append(cfg.Datasets, gateway.Dataset{Name: "scans", Index: cfg.Datasets[0].Index, Source: other})
		cfg.Mixtures, cfg.Mix = all, mix
	})
	return r, other
}

// mixtureSource reads the parts of a batch one after another. The data path, which is tested
// separately, reserves memory for all parts together.
type mixtureSource struct {
	parts  []gateway.Dataset
	before []int // chunks before each part
}

func mix(parts []gateway.Dataset) gateway.Source {
	m := &mixtureSource{parts: parts}
	n := 0
	for _, p := range parts {
		m.before = append(m.before, n)
		n += p.Index.Chunks()
	}
	return m
}

func (m *mixtureSource) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	segments := map[int][]byte{}
	var bodies []*batch.Body
	for i, p := range m.parts {
		var own []batch.ChunkRanges
		var seqs []int
		for _, c := range chunks {
			c.Chunk -= m.before[i]
			if c.Chunk < 0 || c.Chunk >= p.Index.Chunks() {
				continue
			}
			c.Ranges = slices.Clone(c.Ranges)
			for k := range c.Ranges {
				seqs = append(seqs, c.Ranges[k].Seq)
				c.Ranges[k].Seq = len(seqs) - 1
			}
			own = append(own, c)
		}
		var part shuffle.Cursor
		if len(at.Parts) > i {
			part = at.Parts[i]
		}
		body, err := p.Source.Read(ctx, part, own)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
		for k, seq := range seqs {
			segments[seq] = body.Segments[k]
		}
	}
	list := make([][]byte, len(segments))
	for seq, b := range segments {
		list[seq] = b
	}
	return batch.NewBody(list, nil, func() {
		for _, b := range bodies {
			b.Close()
		}
	}), nil
}

func (m *mixtureSource) Warm(context.Context, shuffle.Cursor) (batch.Warmed, error) {
	return batch.Warmed{}, errors.New("nobody warms this")
}

// mixedSamples returns the samples that an epoch of a mixture of photos and scans delivers: the
// source and key of each position.
func (r *rig) mixedSamples(m *shuffle.Mixture, params shuffle.Params, epoch uint64) [][2]string {
	r.t.Helper()
	epochs := map[[2]uint64]*shuffle.Epoch{}
	var out [][2]string
	for _, turn := range m.Append(nil, epoch, 0, m.Samples()) {
		at := [2]uint64{uint64(turn.Source), turn.Epoch}
		if epochs[at] == nil {
			params.Seed = m.SourceSeed(turn.Source)
			p, err := shuffle.NewPlan(params, r.index.First())
			if err != nil {
				r.t.Fatal(err)
			}
			epochs[at] = p.Epoch(turn.Epoch)
		}
		out = append(out, [2]string{[]string{"photos", "scans"}[turn.Source], r.order[epochs[at].At(turn.Position)]})
	}
	return out
}

func TestMixtureDeliversWhatItsOrderSays(t *testing.T) {
	weighed := gateway.Mixture{Name: "weighed", Mixture: address.Mixture{Samples: 70, Sources: []address.Source{{Dataset: "photos", Share: 3}, {Dataset: "scans", Share: 1}}}}
	fixed := gateway.Mixture{Name: "fixed", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 5}, {Dataset: "scans", Share: 2}}, PerBatch: true}}
	r, _ := mixedRig(t, weighed, fixed)
	for _, c := range []struct {
		m     gateway.Mixture
		order []shuffle.Ingredient
		query string
	}{
		{weighed, []shuffle.Ingredient{{Samples: 50, Weight: 3}, {Samples: 50, Weight: 1}}, "batch_size=16"},
		{weighed, []shuffle.Ingredient{{Samples: 50, Weight: 3}, {Samples: 50, Weight: 1}}, "batch_size=16&tail=pad"},
		{fixed, []shuffle.Ingredient{{Samples: 50, PerBatch: 5}, {Samples: 50, PerBatch: 2}}, "seed=7"},
	} {
		m, err := shuffle.NewMixture(7, c.m.Samples, c.order)
		if err != nil {
			t.Fatal(err)
		}
		for _, epoch := range []uint64{0, 3} {
			want := r.mixedSamples(m, shuffle.Params{Shuffle: shuffle.Slot, Window: 4}, epoch)
			size := m.BatchSize()
			if size == 0 {
				size = 16
			}
			for batch := range (m.Samples() + size - 1) / size {
				at := fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d", c.m.Name, epoch, batch)
				var list struct {
					Samples []struct{ Source, Key string }
				}
				r.json(at+"/manifest?"+c.query, &list)
				var body []byte
				for i, s := range list.Samples {
					w := want[(batch*size+uint64(i))%m.Samples()]
					if s.Source != w[0] || s.Key != w[1] && w[1] != r.order[oddSample] {
						t.Fatalf("%s?%s: sample %d is %s of %s, want %v", at, c.query, i, s.Key, s.Source, w)
					}
					body = append(body, r.samples[w[1]]...)
				}
				if got := r.do("GET", at+"?"+c.query).body; !bytes.Equal(got, append(body, make([]byte, 1024)...)) || len(list.Samples) == 0 {
					t.Fatalf("%s?%s: the body is not what its manifest says", at, c.query)
				}
			}
		}
	}
}

// TestMixtureIsSharedOut reads one batch by three ranks, with both values of balance.
func TestMixtureIsSharedOut(t *testing.T) {
	r, other := mixedRig(t, gateway.Mixture{Name: "m", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}, {Dataset: "scans", Share: 1}}}})
	for _, how := range []string{"", "&balance=bytes"} {
		whole := map[string]int{}
		for _, key := range r.manifest("/v1/datasets/m/epochs/0/batches/1/manifest?batch_size=20") {
			whole[key]++
		}
		for rank := range 3 {
			for _, key := range r.manifest(fmt.Sprintf("/v1/datasets/m/epochs/0/batches/1/manifest?batch_size=20&world_size=3&rank=%d%s", rank, how)) {
				whole[key]--
			}
		}
		for key, n := range whole {
			if n != 0 {
				t.Errorf("%s: %q comes %d times too few", how, key, n)
			}
		}
	}
	before := other.asked.Load()
	r.do("GET", "/v1/datasets/m/epochs/0/batches/0?batch_size=20")
	if got := other.asked.Load() - before; got < 9 || got > 11 {
		t.Errorf("got %d of 20 samples asked of the second source, want about half", got)
	}
	a := r.do("GET", "/v1/datasets/m/epochs/0/batches/0?batch_size=20")
	if got := r.do("GET", a.Header.Get("Content-Location"), "If-None-Match: "+a.Header.Get("ETag")); got.StatusCode != http.StatusNotModified {
		t.Errorf("got %d, want 304", got.StatusCode)
	}
}

func TestMixtureRefuses(t *testing.T) {
	r, _ := mixedRig(t,
		gateway.Mixture{Name: "m", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}, {Dataset: "scans", Share: 1}}}},
		gateway.Mixture{Name: "fixed", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 3}, {Dataset: "scans", Share: 1}}, PerBatch: true}})
	none := strings.Repeat("ab", 32)
	for _, path := range []string{
		"/v1/datasets/m/epochs/0/batches/0?share=locality", "/v1/datasets/m/epochs/0/batches/0?subset=train",
		"/v1/datasets/m/epochs/0/batches/0?quarantine=" + none, "/v1/datasets/m/epochs/0/batches/0?importance=" + none,
		"/v1/datasets/m/occurrences?key=d0%2Fs00001&epochs=18446744073709551615", "/v1/datasets/m/index", "/v1/datasets/fixed/epochs/0/batches/0?batch_size=5",
		"/v1/datasets/m/epochs/18446744073709551615/batches/0", "/v1/datasets/m/epochs/18446744073709551615",
	} {
		checkProblem(t, r.do("GET", path), http.StatusBadRequest, "invalid_argument", false)
	}
	checkProblem(t, r.post("/v1/datasets/m/warm", ""), http.StatusBadRequest, "invalid_argument", false)
	for name, m := range map[string]gateway.Mixture{
		"no such dataset": {Name: "x", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "none", Share: 1}}}},
		"a taken name":    {Name: "photos", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}}}},
		"a bad name":      {Name: "a/b", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}}}},
		"no source":       {Name: "x"},
		"no weight":       {Name: "x", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos"}}}},
	} {
		cfg := gateway.Config{Datasets: []gateway.Dataset{{Name: "photos", Index: r.index, Source: r.source}}, Mixtures: []gateway.Mixture{m}, Mix: mix}
		if _, err := gateway.New(cfg); err == nil {
			t.Errorf("%s: a gateway was made", name)
		}
	}
	cfg := gateway.Config{
		Datasets: []gateway.Dataset{{Name: "photos", Index: r.index, Source: r.source}},
		Mixtures: []gateway.Mixture{{Name: "x", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}}}}},
	}
	if _, err := gateway.New(cfg); err == nil || !strings.Contains(err.Error(), "Mix") {
		t.Errorf("nobody to read them: got %v, want an error that names Mix", err)
	}
}

func TestMixtureSaysItsParts(t *testing.T) {
	r, _ := mixedRig(t, gateway.Mixture{Name: "m", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 3}, {Dataset: "scans", Share: 1}}}})
	type part struct {
		Dataset, Generation string
		Samples, Weight     uint64
	}
	var d, e struct {
		Generation string
		Digest     string `json:"order_digest"`
		Samples    uint64
		Sources    []part
	}
	r.json("/v1/datasets/m", &d)
	r.json("/v1/datasets/m/epochs/1", &e)
	want := []part{{"photos", r.index.Generation(), 50, 3}, {"scans", r.index.Generation(), 50, 1}}
	if fmt.Sprint(d.Sources) != fmt.Sprint(want) || fmt.Sprint(e.Sources) != fmt.Sprint(want) || e.Samples != 100 || d.Generation == r.index.Generation() {
		t.Errorf("got %+v and %+v, want the parts %+v", d, e, want)
	}
	m, err := shuffle.NewMixture(7, 0, []shuffle.Ingredient{{Samples: 50, Weight: 3}, {Samples: 50, Weight: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for i := range 2 {
		p, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Slot, Window: 4, Seed: m.SourceSeed(i)}, r.index.First())
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, p.OrderDigest())
	}
	if want := m.OrderDigest(digests); e.Digest != want {
		t.Errorf("order digest: got %s, want %s", e.Digest, want)
	}
}
