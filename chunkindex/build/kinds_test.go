package build_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// folder returns a store with objects of these names; "*.jpg:30" means thirty images.
func folder(t *testing.T, names ...string) *memstore.Store {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	if to, err := w.Create("1.jpg"); err != nil {
		t.Fatal(err)
	} else if _, err := to.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join("..", "codec", "rowgroup", "testdata", "by-polars.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string][]byte{
		".tar": indextest.Write(t, memstore.New(), indextest.Spec{Sizes: []int{5}}).Bodies[0], ".zip": archive.Bytes(),
		".jsonl": []byte("{\"file_name\": \"1.jpg\"}\n"), ".csv": []byte("file_name,label\n1.jpg,7\n"), ".parquet": table,
	}
	store := memstore.New()
	for _, name := range names {
		pattern, n, _ := strings.Cut(name, ":")
		count := 1
		if n != "" {
			if _, err := fmt.Sscan(n, &count); err != nil {
				t.Fatal(err)
			}
		}
		for i := range count {
			key := strings.ReplaceAll(pattern, "*", fmt.Sprint(i))
			body := []byte("something")
			if at := strings.LastIndexByte(key, '.'); at >= 0 && bodies[key[at:]] != nil {
				body = bodies[key[at:]]
			}
			store.Set(key, body)
		}
	}
	return store
}

// TestRun_RejectsSeveralKinds checks that the user must select a kind, unless all objects of a
// folder are of one kind except for a few that do not matter.
func TestRun_RejectsSeveralKinds(t *testing.T) {
	for objects, want := range map[string]string{
		"data-*.parquet:12 images/*.jpg:30":               "parquet 12 *.parquet, image 30 *.jpg",
		"metadata.parquet 1.jpg":                          "image 1 *.jpg, parquet 1 *.parquet",
		"train/metadata.jsonl train/a.jpg":                "image 1 *.jpg, jsonl 1 *.jsonl",
		"metadata.csv cat/*.jpg:3 cat/x.PNG":              "image 4 *.{PNG,jpg}, csv 1 *.csv",
		"metadata.csv sounds/*.wav:3":                     "sound 3 *.wav, csv 1 *.csv",
		"annotations.json images/*.jpg:3":                 "image 3 *.jpg, text 1 *.json",
		"*.jpg:3 *.txt:3":                                 "image 3 *.jpg, text 3 *.txt",
		"lines.jsonl images/*.jpg:3":                      "image 3 *.jpg, jsonl 1 *.jsonl",
		"train.tar train/*.jpg:3":                         "image 3 *.jpg, tar 1 *.tar",
		"a.tar b.tar c.jsonl":                             "tar 2 *.tar, jsonl 1 *.jsonl",
		"a.jsonl *.csv:2":                                 "csv 2 *.csv, jsonl 1 *.jsonl",
		"a.zip *.csv:2":                                   "csv 2 *.csv, zip 1 *.zip",
		"a.jsonl *.h5:3":                                  "jsonl 1 *.jsonl; object 0.h5: it is HDF5",
		"*.jpg:3 model.pt":                                "image 3 *.jpg; object model.pt: it is pickled by Python",
		"*.jpg:3 notes.xyz":                               "image 3 *.jpg; object notes.xyz: its name is not that of an image",
		"a.jpg noextension":                               "image 1 *.jpg; object noextension: its name",
		"cat/*.jpg:20 dog/*.png:20 cat/notes.txt LICENSE": "files 40",
		"cat/*.jpg:20 dog/*.png:20 cat/*.txt:3":           "image 40 *.{jpg,png}, text 3 *.txt", // the texts may be captions of these images
		"cat/*.jpg:20 dog/*.png:20 notes/*.txt:5":         "image 40 *.{jpg,png}, text 5 *.txt", // more texts than one per ten images
		"*.jpg:40 notes.txt":                              "image 40 *.jpg, text 1 *.txt",       // the images are not in class folders
		"*.jpg:3 README.md metadata.json LICENSE _SUCCESS load.py checksums.md5 state.json": "files 3",
		"*.jpg:3 .gitattributes index.html CITATION.cff":                                    "files 3",
		"*.tar:3 *.parquet:3 *_stats.json:3":                                                "tar 3",
		"*.tar:3 *.png:2 assets/logo.svg":                                                   "tar 3",
		"*.tar:2 notes.txt labels.txt more.txt":                                             "tar 2",
		"metadata.jsonl other.jsonl 1.jpg":                                                  "jsonl 2",
		"metadata.jsonl scores.csv":                                                         "jsonl 1",
	} {
		t.Run(objects, func(t *testing.T) {
			store := folder(t, strings.Fields(objects)...)
			rep, err := build.Run(t.Context(), store, "", build.Options{})
			asked, ok := errors.AsType[*build.KindsError](err)
			if !ok {
				if got := fmt.Sprint(rep.Format, " ", rep.Shards); err != nil || got != want {
					t.Fatalf("got %s, %v, want %s", got, err, want)
				}
				return
			}
			var choices, refusals []string
			for _, k := range asked.Kinds {
				if k.Refusal != "" {
					refusals = append(refusals, k.Refusal)
					continue
				}
				choices = append(choices, fmt.Sprintf("%s %d %s", k.Name, k.Objects, k.Match))
			}
			wanted, refused, _ := strings.Cut(want, "; ")
			first, second, _ := strings.Cut(wanted, ", ")
			if got := strings.Join(choices, ", "); got != wanted && (second == "" || got != second+", "+first) || !strings.Contains(strings.Join(refusals, ""), refused) || len(refusals) > 1 {
				t.Fatalf("got %s %q, want %s", got, refusals, want)
			}
			for _, k := range asked.Kinds {
				if k.Refusal != "" {
					continue
				}
				rep, err := build.Run(t.Context(), store, "", build.Options{Match: k.Match})
				if err != nil || rep.Shards != k.Objects || rep.Format != k.Name && rep.Format != framing.Files {
					t.Errorf("%s: got %+v, %v, want %d", k.Match, rep, err, k.Objects)
				}
			}
		})
	}
}

// TestKindsError_SuggestsNoWrongPattern checks that no pattern is suggested if no pattern separates
// the kinds.
func TestKindsError_SuggestsNoWrongPattern(t *testing.T) {
	_, err := build.Run(t.Context(), folder(t, "a.jpg", "b.jpg", "c.x*y", "d.zarr/1.jpg"), "", build.Options{})
	asked, ok := errors.AsType[*build.KindsError](err)
	if !ok || len(asked.Kinds) != 3 || asked.Kinds[0].Name != "image" || asked.Kinds[0].Match != "" {
		t.Errorf("got %v", err)
	}
}

// TestKindsError_Text checks that the error text contains all information, even without the
// formatting of a command.
func TestKindsError_Text(t *testing.T) {
	_, err := build.Run(t.Context(), folder(t, "a.jpg", "b.jpg", "c.x*y"), "", build.Options{})
	asked, ok := errors.AsType[*build.KindsError](err)
	if !ok || asked.Kinds[0].Match != "*.jpg" || asked.Kinds[0].Example != "a.jpg" {
		t.Errorf("got %v", err)
	}
	if d := cmp.Diff("several kinds of objects found: 2 image (*.jpg): choose one kind with --match; object c.x0y: its name is not that of an image", strings.SplitAfter(err.Error(), "of an image")[0][len(`index "": `):]); d != "" {
		t.Error(d)
	}
}

// TestRun_NamedFormatAllowsSeveralKinds checks that a format that the user names, or a format's own
// index, determines the shards.
func TestRun_NamedFormatAllowsSeveralKinds(t *testing.T) {
	if rep, err := build.Run(t.Context(), folder(t, "metadata.jsonl", "*.jpg:3"), "", build.Options{Format: "files"}); err != nil || rep.Shards != 4 {
		t.Errorf("got %+v, %v, want four samples", rep, err)
	}
}
