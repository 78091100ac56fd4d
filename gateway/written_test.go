package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
)

// mixedKeys returns the sources and keys of an epoch from its manifests, and compares each body
// with the samples in its manifest.
func (r *rig) mixedKeys(dataset string, epoch int, query string) []string {
	r.t.Helper()
	base := fmt.Sprintf("/v1/datasets/%s/epochs/%d", dataset, epoch)
	var plan struct{ Batches, Samples uint64 }
	r.json(base+"?"+query, &plan)
	var out []string
	for batch := range plan.Batches {
		at := fmt.Sprintf("%s/batches/%d", base, batch)
		var body []byte
		for _, s := range r.entries(at + "/manifest?" + query) {
			out = append(out, s.Source+" "+s.Key)
			body = append(body, r.samples[s.Key]...)
		}
		if got := r.do("GET", at+"?"+query).body; !bytes.Equal(got, append(body, make([]byte, 1024)...)) {
			r.t.Fatalf("%s?%s: the body is not what its manifest says", at, query)
		}
	}
	if uint64(len(out)) != plan.Samples {
		r.t.Fatalf("%s: got %d samples, want %d", base, len(out), plan.Samples)
	}
	return out
}

// TestWrittenMixtureIsTheOperatorsOne compares mixtures that URLs define with the same mixtures in
// the configuration.
func TestWrittenMixtureIsTheOperatorsOne(t *testing.T) {
	r, _ := mixedRig(t,
		gateway.Mixture{Name: "weighed", Mixture: address.Mixture{Samples: 70, Sources: []address.Source{{Dataset: "photos", Share: 3}, {Dataset: "scans", Share: 1}}}},
		gateway.Mixture{Name: "fixed", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 5}, {Dataset: "scans", Share: 2}}, PerBatch: true}})
	for _, c := range []struct{ name, written, query string }{
		{"weighed", "mix:photos:6,scans:2,samples=70", "batch_size=16"},
		{"weighed", "mix:photos:3,scans:1,samples=70", "batch_size=16&shuffle=window&window=4&seed=9"},
		{"fixed", "mix:photos:5,scans:2,per-batch", "seed=3"},
		{"fixed", url.PathEscape("mix:photos:5,scans:2,per-batch"), ""},
		{"fixed", url.QueryEscape("mix:photos:5,scans:2,per-batch"), ""},
	} {
		want := r.mixedKeys(c.name, 3, c.query)
		if got := r.mixedKeys(c.written, 3, c.query); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.written, got, want)
		}
		type descriptionJSON struct {
			Digest     string `json:"order_digest"`
			Samples    uint64
			Parameters struct{ Generation string }
		}
		var theirs, own descriptionJSON
		r.json("/v1/datasets/"+c.name+"/epochs/3?"+c.query, &theirs)
		r.json("/v1/datasets/"+c.written+"/epochs/3?"+c.query, &own)
		if own.Digest != theirs.Digest || own.Parameters.Generation != r.index.Generation()+","+r.index.Generation() {
			t.Errorf("%s: got %+v, want the order of %+v, and the sources' generations", c.written, own, theirs)
		}
	}
}

// TestWrittenMixtureOfParts mixes parts of datasets, and replaces the bad samples of one.
func TestWrittenMixtureOfParts(t *testing.T) {
	r, _ := mixedRig(t)
	train, scans := r.epochKeys(0, "shuffle=none&subset=train=3,val=1:train"), r.order[10:20]
	name := "mix:photos(subset=train=3,val=1:train):1,scans(quarantine=samples:12&subset=samples:10-19):1"
	got := r.mixedKeys(name, 0, "batch_size=9&shuffle=none")
	n := len(train) + len(scans)
	counts := map[string]int{}
	for _, key := range got {
		counts[key]++
	}
	if len(got) != n {
		t.Fatalf("got %d samples, want %d", len(got), n)
	}
	var ofPhotos []string
	for _, key := range got {
		if source, key, _ := strings.Cut(key, " "); source == "photos" {
			ofPhotos = append(ofPhotos, key)
		} else if !slices.Contains(scans, key) || key == r.order[12] {
			t.Errorf("got %s of scans, want one of its part that is not bad", key)
		}
	}
	if want := train[:len(ofPhotos)]; !slices.Equal(ofPhotos, want) {
		t.Errorf("got %v of photos, want the beginning of its part, %v", ofPhotos, want)
	}
	if counts["scans "+r.order[10]] == 0 {
		t.Errorf("got no %s of scans, want the beginning of its part", r.order[10])
	}
	again := r.mixedKeys(name, 4, "batch_size=9&shuffle=window&window=4&seed=1")
	if len(again) == 0 || slices.Equal(again, got) {
		t.Errorf("got the same order in another epoch and by another seed")
	}
	twice := r.mixedKeys("mix:photos(subset=samples:0-4):1,photos(subset=samples:5-49):1", 0, "")
	first := 0
	for _, key := range twice {
		if slices.Index(r.order, strings.TrimPrefix(key, "photos ")) < 5 {
			first++
		}
	}
	if first < 23 || first > 27 {
		t.Errorf("got %d of %d samples of the first part, want half", first, len(twice))
	}
}

// TestWrittenMixtureHasOneAddress: another spelling of a mixture has the same canonical address,
// which pins all data.
func TestWrittenMixtureHasOneAddress(t *testing.T) {
	r, _ := mixedRig(t)
	a := r.do("GET", "/v1/datasets/mix:photos(subset=samples:3,4&quarantine=samples:3):14,scans:6/epochs/2/batches/1?batch_size=4")
	canonical := a.Header.Get("Content-Location")
	generations := r.index.Generation() + "," + r.index.Generation()
	if want := "/v1/datasets/mix:photos(quarantine=samples:3&subset=samples:3-4):7,scans:3/epochs/2/batches/1?batch_size=4&format=tar&generation=" + generations + "&"; !strings.HasPrefix(canonical, want) {
		t.Fatalf("got Content-Location %s, want %s", canonical, want)
	}
	if got := a.Header.Get("Millrace-Generation"); got != generations {
		t.Errorf("got generation %s, want %s", got, generations)
	}
	if escaped := r.do("HEAD", strings.ReplaceAll(canonical, ",", "%2C")); escaped.Header.Get("ETag") != a.Header.Get("ETag") {
		t.Errorf("with commas escaped: got %d and another ETag", escaped.StatusCode)
	}
	again := r.do("GET", canonical)
	if again.Header.Get("ETag") != a.Header.Get("ETag") || !bytes.Equal(again.body, a.body) || again.Header.Get("Content-Location") != canonical || !strings.Contains(again.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("the canonical address gives another answer: %v", again.Header)
	}
	if got := r.do("GET", canonical, "If-None-Match: "+a.Header.Get("ETag")); got.StatusCode != http.StatusNotModified {
		t.Errorf("got %d, want 304", got.StatusCode)
	}
	other := r.do("HEAD", strings.Replace(canonical, ":7,", ":8,", 1))
	if other.StatusCode != http.StatusOK || other.Header.Get("ETag") == a.Header.Get("ETag") {
		t.Errorf("another mixture of the same datasets: got %d and the same ETag, want another", other.StatusCode)
	}
	var d struct {
		Name, Generation string
		Generations      []struct{ Generation string }
		Sources          []struct {
			Dataset, Subset, Quarantine string
			Samples                     uint64
		}
	}
	name := strings.Split(canonical, "/")[3]
	r.json("/v1/datasets/"+name, &d)
	if d.Name != name || d.Generation != generations || len(d.Generations) != 1 || len(d.Sources) != 2 || d.Sources[0].Samples != 2 || d.Sources[0].Subset != "samples:3-4" {
		t.Errorf("got %+v, want what is mixed", d)
	}
	metrics := string(r.do("GET", "/metrics").body)
	if strings.Contains(metrics, "photos:7") || !strings.Contains(metrics, `dataset="mix:"`) {
		t.Error("metrics have a label for each mixture, want one for all")
	}
}

func TestWrittenMixtureRefuses(t *testing.T) {
	r, _ := mixedRig(t, gateway.Mixture{Name: "m", Mixture: address.Mixture{Sources: []address.Source{{Dataset: "photos", Share: 1}, {Dataset: "scans", Share: 1}}}})
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf("photos(subset=samples:%d):1", i))
	}
	none := strings.Repeat("ab", 32)
	for name, want := range map[string]int{
		"mix:":                                    400,
		"mix:photos":                              400,
		"mix:photos:0":                            400,
		"mix:photos:-1":                           400,
		"mix:photos:4294967297":                   400,
		"mix:photos:1,":                           400,
		"mix:photos:1,photos:2":                   400,
		"mix:ph%20otos:1":                         400,
		"mix:..:1":                                400,
		"mix:m:1,photos:1":                        400, // the source is a mixture
		"mix:photos(subset=train):1":              400, // a mixture cannot use a default split
		"mix:photos(seed=3):1":                    400,
		"mix:photos():1":                          400,
		"mix:photos(subset=samples:1:1":           400,
		"mix:photos(subset=samples:60):1":         400, // no samples
		"mix:photos(quarantine=samples:0-49):1":   400,
		"mix:photos:1,samples=0":                  400,
		"mix:photos:1,samples=1,samples=2":        400,
		"mix:photos:1,per-batch,per-batch":        400,
		"mix:photos:4294967296,scans:1,per-batch": 400,
		"mix:" + strings.Join(many, ","):          400,
		"mix:" + strings.Repeat("photos:1,", 600): 400,
		"mix:nosuch:1":                            404,
		"mix:photos(subset=" + none + ":train):1": 404,
		"mix:photos(quarantine=" + none + "):1":   404,
		"mix:photos:1/../photos":                  404,
		"mix:photos:1%2Fx":                        400,
		"mixx:photos:1":                           404,
		"%6dix:photos:1":                          200, // characters that a program may escape
	} {
		path := "/v1/datasets/" + name + "/epochs/0/batches/0"
		if strings.HasSuffix(name, "per-batch") && want == 400 && !strings.Contains(name, "per-batch,") {
			path += "?batch_size=3"
		}
		a := r.do("GET", path)
		if want == 200 {
			if a.StatusCode != 200 {
				t.Errorf("%s: got %d %s, want 200", name, a.StatusCode, a.body)
			}
			continue
		}
		code := map[int]string{400: "invalid_argument", 404: "not_found"}[want]
		checkProblem(t, a, want, code, false)
	}
	for _, query := range []string{
		"generation=" + r.index.Generation(), "generation=" + strings.Repeat(r.index.Generation()+",", 2) + r.index.Generation(), "generation=x", "subset=samples:0", "quarantine=samples:0",
		"importance=" + none, "share=locality",
	} {
		checkProblem(t, r.do("GET", "/v1/datasets/mix:photos:1,scans:1/epochs/0/batches/0?"+query), 400, "invalid_argument", false)
	}
	checkProblem(t, r.do("GET", "/v1/datasets/photos/epochs/0?generation="+r.index.Generation()+","+none), 400, "invalid_argument", false)
	checkProblem(t, r.do("GET", "/v1/datasets/mix:photos:1/index"), 400, "invalid_argument", false)
	alone := newRig(t, 50, 800, nil)
	checkProblem(t, alone.do("GET", "/v1/datasets/mix:photos:1/epochs/0"), 404, "not_found", false)
}

// TestWrittenMixtureWantsReadOnItsSources sends requests of every caller of the matrix. A caller
// without read on one source learns nothing about the others.
func TestWrittenMixtureWantsReadOnItsSources(t *testing.T) {
	m := newMatrix(t, nil)
	const batch = "/epochs/0/batches/0"
	for _, c := range m.callers {
		for name, sources := range map[string][]string{
			"mix:photos:1,scans:2": {"photos", "scans"}, "mix:photos:1,photoz:2": {"photos", "photoz"}, "mix:open:1": {"open"}, "mix:scans:1,open:1": {"scans", "open"},
		} {
			may := !slices.ContainsFunc(sources, func(s string) bool { return !c.may("read", s) })
			want := http.StatusOK
			switch {
			case c.invalid:
				want = http.StatusUnauthorized
			case !may && c.anonymous():
				want = http.StatusUnauthorized
			case !may || strings.Contains(name, "photoz"):
				want = http.StatusNotFound
			}
			if a := m.ask(m.gateway.Handler(), c, "GET", "/v1/datasets/"+name+batch, ""); a.StatusCode != want {
				t.Errorf("%s, %s: got status %d, want %d: %s", c.name, name, a.StatusCode, want, a.body)
			}
		}
		if c.has("read", "*") || c.may("read", "scans") && c.may("read", "photos") || c.may("read", "scanz") {
			continue
		}
		there := m.ask(m.gateway.Handler(), c, "GET", "/v1/datasets/mix:photos:1,scans:2"+batch, "")
		absent := m.ask(m.gateway.Handler(), c, "GET", "/v1/datasets/mix:photos:1,scanz:2"+batch, "")
		if there.StatusCode != absent.StatusCode || string(there.body) != strings.ReplaceAll(string(absent.body), "scanz", "scans") {
			t.Errorf("%s: got %s of a source that is there, and %s of one that is not", c.name, there.body, absent.body)
		}
	}
	all, port := m.by("all"), m.gateway.Handler()
	if got := m.ask(port, all, "GET", "/v1/datasets/mix:photos:1,open:1"+batch, "").Header.Get("Cache-Control"); !strings.HasPrefix(got, "private") {
		t.Errorf("got Cache-Control %s with a source that not everybody may read, want private", got)
	}
	if got := m.ask(port, all, "GET", "/v1/datasets/mix:open:1"+batch, "").Header.Get("Cache-Control"); strings.Contains(got, "private") {
		t.Errorf("got Cache-Control %s of what everybody may read", got)
	}
	if a := m.ask(port, m.by("star"), "POST", "/v1/datasets/mix:photos:1,scans:1/warm", ""); a.StatusCode != http.StatusForbidden {
		t.Errorf("warming without the right: got %d, want 403", a.StatusCode)
	}
}

// TestWrittenMixtureOfOlderGenerations requests older generations by URL when the sources have
// newer ones. It does so at the same gateway, and at one that never had the mixture.
func TestWrittenMixtureOfOlderGenerations(t *testing.T) {
	g := newGenerations(t, func(c *gateway.Config) { c.Mix = mix })
	before := g.do("GET", "/v1/datasets/mix:photos(subset=samples:0-39):1/epochs/3/batches/1")
	pinned := before.Header.Get("Content-Location")
	if err := g.gateway.Serve([]gateway.Dataset{g.newer}, nil); err != nil {
		t.Fatal(err)
	}
	if got := g.do("GET", "/v1/datasets/mix:photos(subset=samples:0-39):1/epochs/3/batches/1"); got.Header.Get("Millrace-Generation") != g.newer.Index.Generation() {
		t.Errorf("without a generation: got %s, want the newer one", got.Header.Get("Millrace-Generation"))
	}
	grown := newRigOf(t, g, g.newer)
	for name, r := range map[string]*rig{"the same gateway": g.rig, "another gateway": grown} {
		if got := r.do("GET", pinned); got.StatusCode != 200 || !bytes.Equal(got.body, before.body) || got.Header.Get("ETag") != before.Header.Get("ETag") {
			t.Errorf("%s: got %d and another answer for a pinned URL", name, got.StatusCode)
		}
	}
	gone := strings.Replace(pinned, g.older.Index.Generation(), goneGeneration, 1)
	checkProblem(t, g.do("GET", gone), http.StatusNotFound, "generation_gone", false)
}
