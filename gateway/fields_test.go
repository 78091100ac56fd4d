package gateway_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/gateway"
)

// serveGolden serves files that another library has written.
func serveGolden(t *testing.T, dir string, edit func(*gateway.Config), names ...string) *rig {
	t.Helper()
	objects := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		objects[name] = b
	}
	return serveObjects(t, objects, edit)
}

// fieldsOf returns the fields that the description of a dataset tells.
func fieldsOf(r *rig, dataset string) []format.Field {
	r.t.Helper()
	var got struct {
		Fields []format.Field `json:"fields"`
	}
	if err := json.Unmarshal(r.do("GET", "/v1/datasets/"+dataset).body, &got); err != nil {
		r.t.Fatal(err)
	}
	return got.Fields
}

// TestDescriptionTellsFields serves what MDSWriter has written, and holds the description of its columns to what was written and to the
// specification.
func TestDescriptionTellsFields(t *testing.T) {
	r := serveGolden(t, "../chunkindex/mds/testdata", nil, "shard.00000.mds", "index.json")
	want := []format.Field{
		{Name: "id", Encoding: "raw", Type: "int64"}, {Name: "q\"\\uote\n\x7fé😀</a>", Encoding: "json"}, {Name: "raw", Encoding: "raw", Type: "binary"},
		{Name: "text", Encoding: "raw", Type: "utf8"}, {Name: "v", Encoding: "raw", Type: "float", Shape: []uint64{2}}, {Name: "w", Encoding: "mds:ndarray"},
		{Name: "x", Encoding: "raw", Type: "float"},
	}
	if d := cmp.Diff(want, fieldsOf(r, "photos")); d != "" {
		t.Error(d)
	}
	doc, err := openapi3.NewLoader().LoadFromData(r.do("GET", "/openapi.json").body)
	if err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	s := specification{t, r, router}
	s.check("GET", "/v1/datasets/photos", "", http.StatusOK, r.do("GET", "/v1/datasets/photos"))
	s.check("GET", "/v1/datasets", "", http.StatusOK, r.do("GET", "/v1/datasets"))
}

// TestDescriptionOfTarsHasNoFields: nothing but a suffix says what a member holds.
func TestDescriptionOfTarsHasNoFields(t *testing.T) {
	r := serveObjects(t, writeTars(t).objects, nil)
	if a := r.do("GET", "/v1/datasets/photos"); bytes.Contains(a.body, []byte("fields\":[")) {
		t.Errorf("got %s, want no fields", a.body)
	}
}

// TestFieldsOfMixtures: a mixture has the fields that all of its sources have.
func TestFieldsOfMixtures(t *testing.T) {
	tars := serveObjects(t, writeTars(t).objects, nil)
	r := serveGolden(t, "../chunkindex/mds/testdata", func(cfg *gateway.Config) {
		same := cfg.Datasets[0]
		same.Name = "same"
		cfg.Datasets = append(cfg.Datasets, same, gateway.Dataset{Name: "tars", Index: tars.index, Source: same.Source})
		of := func(name, second string) gateway.Mixture {
			return gateway.Mixture{Name: name, Sources: []gateway.MixtureSource{{Dataset: "photos", Weight: 1}, {Dataset: second, Weight: 1}}}
		}
		cfg.Mixtures, cfg.Mix = []gateway.Mixture{of("alike", "same"), of("unlike", "tars")}, mix
	}, "shard.00000.mds", "index.json")
	if d := cmp.Diff(fieldsOf(r, "photos"), fieldsOf(r, "alike")); d != "" {
		t.Error(d)
	}
	if fields := fieldsOf(r, "unlike"); fields != nil {
		t.Errorf("got %v of sources that differ, want none", fields)
	}
}
