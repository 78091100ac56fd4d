package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/shuffle"
)

// unreadableSource is a source whose chunks cannot be read.
type unreadableSource struct{ gateway.Source }

func (unreadableSource) Read(context.Context, shuffle.Cursor, []batch.ChunkRanges) (*batch.Body, error) {
	return nil, errors.New("read")
}

// mixedFolders serves class folders and mixtures: with-alike mixes folders with the same classes,
// with-other folders with different classes, and with-tars folders and tars.
func mixedFolders(t *testing.T) (r *rig, pictures, tars storedDataset) {
	t.Helper()
	w, alike := writeFiles(), folders(2, 3)
	other := storedDataset{objects: map[string][]byte{}}
	for _, key := range []string{"b", "a"} {
		other.objects[key+"/x"+key+".JPEG"] = []byte("picture " + key)
	}
	other.samples = []sampleOf{
		{"a/xa", []partOf{{"JPEG", []byte("picture a")}, {"cls", []byte("0")}}}, {"b/xb", []partOf{{"JPEG", []byte("picture b")}, {"cls", []byte("1")}}},
	}
	tars = writeTars(t)
	rigs := map[string]*rig{"other": serveObjects(t, other.objects, nil), "tars": serveObjects(t, tars.objects, nil), "alike": serveObjects(t, alike, nil), "alike-too": serveObjects(t, alike, nil)}
	r = serveObjects(t, w.objects, func(cfg *gateway.Config) {
		for name, from := range rigs {
			cfg.Datasets = append(cfg.Datasets, gateway.Dataset{Name: name, Index: from.index, Source: from.opened})
		}
		of := func(name, first, second string) {
			cfg.Mixtures = append(cfg.Mixtures, gateway.Mixture{Name: name, Mixture: address.Mixture{Sources: []address.Source{{Dataset: first, Share: 1}, {Dataset: second, Share: 1}}}})
		}
		of("with-alike", "alike", "alike-too")
		of("with-other", "photos", "other")
		of("with-tars", "photos", "tars")
		cfg.Mix = mix
	})
	return r, storedDataset{samples: slices.Concat(w.samples, other.samples), folders: true}, tars
}

// TestClassFolders_DeclareTheirClasses: the field cls has the names of classes. In a mixture it has
// them if all sources number the classes identically. No field lists pictures, whose part name is
// their suffix.
func TestClassFolders_DeclareTheirClasses(t *testing.T) {
	r, _, _ := mixedFolders(t)
	cls := format.Field{Name: "cls", Encoding: "decimal", Type: "int64"}
	named := func(classes ...string) []format.Field {
		f := cls
		f.Classes = classes
		return []format.Field{f}
	}
	for dataset, want := range map[string][]format.Field{
		"other": named("a", "b"), "with-alike": named("class00", "class01"), "with-other": {cls}, "with-tars": nil, "tars": nil,
	} {
		if d := cmp.Diff(want, fieldsOf(r, dataset)); d != "" {
			t.Errorf("%s: %s", dataset, d)
		}
		var got struct {
			Other bool `json:"other_parts"`
		}
		if err := json.Unmarshal(r.do("GET", "/v1/datasets/"+dataset).body, &got); err != nil || got.Other != (want != nil) {
			t.Errorf("%s: got other_parts %v, %v", dataset, got.Other, err)
		}
	}
	checkDescriptions(t, r)
}

// TestMixture_SamplesHaveTheirClasses reads mixtures of class folders with class folders and with
// tars in every form. Each sample has the class number of its own source. A picture suffix in
// fields means the picture of every class folder.
func TestMixture_SamplesHaveTheirClasses(t *testing.T) {
	r, pictures, tars := mixedFolders(t)
	inFolder := pictures.byKey()
	for _, mixture := range []string{"with-other", "with-tars"} {
		for _, form := range []string{"tar", "multipart", "arrow", "framed", "mds"} {
			path := "/v1/datasets/" + mixture + "/epochs/2/batches/0?batch_size=60&format=" + form + "&fields=jpg,cls"
			if form == "framed" {
				path += "&table=keys,parts"
			}
			var want []sampleOf
			for _, key := range r.keys(path) {
				source := tars
				if _, ok := inFolder[key]; ok {
					source = pictures
				}
				want = append(want, source.expected(form, []string{key}, []string{"jpg", "cls"})...)
			}
			a := r.do("GET", path)
			if a.StatusCode != http.StatusOK {
				t.Fatalf("%s: got status %d: %s", path, a.StatusCode, a.body)
			}
			same(t, path, readForm(t, form, a), want)
			if head := r.do("HEAD", path); head.Header.Get("Content-Length") != a.Header.Get("Content-Length") || head.Header.Get("Millrace-Crc32c") != a.Header.Get("Millrace-Crc32c") {
				t.Errorf("%s: HEAD differs from GET", path)
			}
		}
	}
}

// TestArrow_ClassesAreIntegers: classes are integers only in class folders. A tar member named cls
// has no known type.
func TestArrow_ClassesAreIntegers(t *testing.T) {
	r, _, _ := mixedFolders(t)
	for dataset, want := range map[string]arrow.DataType{"photos": arrow.PrimitiveTypes.Int64, "with-other": arrow.PrimitiveTypes.Int64, "with-tars": arrow.BinaryTypes.Binary} {
		for _, fields := range []string{"", "&fields=cls"} {
			columns := readColumns(t, r.do("GET", "/v1/datasets/"+dataset+"/epochs/0/batches/0?format=arrow"+fields))
			i := columns.Schema().FieldIndices("cls")
			if len(i) != 1 || !arrow.TypeEqual(columns.Column(i[0]).DataType(), want) {
				t.Errorf("%s%s: got columns %v, want cls as %v", dataset, fields, columns.Schema(), want)
				continue
			}
			if c, ok := columns.Column(i[0]).(*array.Int64); ok && (c.NullN() > 0 || columns.Schema().Field(i[0]).Nullable) {
				t.Errorf("%s%s: got %d nulls", dataset, fields, c.NullN())
			}
		}
	}
}

// TestClasses_NeedNoPictures: a response with classes only reads no chunk.
func TestClasses_NeedNoPictures(t *testing.T) {
	w := writeFiles()
	r := serveObjects(t, w.objects, func(cfg *gateway.Config) { cfg.Datasets[0].Source = unreadableSource{cfg.Datasets[0].Source} })
	for _, form := range []string{"tar", "multipart", "arrow", "framed&table=keys,parts", "mds"} {
		path := formBatch + "0?fields=cls&format=" + form
		a := r.do("GET", path)
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%s: got status %d: %s", path, a.StatusCode, a.body)
		}
		form, _, _ = strings.Cut(form, "&")
		same(t, path, readForm(t, form, a), w.expected(form, r.keys(path), []string{"cls"}))
	}
	if a := r.do("GET", formBatch+"0?fields=cls,jpg"); a.StatusCode == http.StatusOK {
		t.Error("with pictures: got status 200 from a source that cannot be read")
	}
}

// TestClassFolders_RefuseOtherNames: class folders have no parts except the class and the picture,
// so other field names are refused.
func TestClassFolders_RefuseOtherNames(t *testing.T) {
	r := serveObjects(t, writeFiles().objects, nil)
	for _, name := range []string{"label", "txt", "seg.png"} {
		if a := r.do("GET", formBatch+"0?fields=cls,"+name); a.StatusCode != http.StatusBadRequest || !strings.Contains(string(a.body), "no sample has a part "+name) {
			t.Errorf("%s: got status %d: %s", name, a.StatusCode, a.body)
		}
	}
}
