package build_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
)

// classesOf indexes loose objects and returns the names of the class folders in the index.
func classesOf(t *testing.T, keys []string, opt build.Options) (classes []string) {
	t.Helper()
	opt.Format, opt.Split = "files", build.AllSplits
	opt.Inspect = func(x *chunkindex.Index) {
		for _, f := range x.Fields() {
			classes = f.Classes
		}
	}
	if _, err := build.Run(t.Context(), shards(t, keys...), "", opt); err != nil {
		t.Fatal(err)
	}
	return classes
}

// TestRun_StoresClassFolders checks that sibling folders of images become classes, if they are in
// one directory or in one directory per split.
func TestRun_StoresClassFolders(t *testing.T) {
	for keys, want := range map[string]string{
		"cat/1.jpg dog/1.png dog/2.JPG":                 "cat dog",
		"data/train/dog/1.jpg data/train/cat/1.jpg":     "cat dog",
		"train/cat/1.jpg train/dog/1.jpg val/emu/1.jpg": "cat dog emu",
		"cat/1.jpg cat/2.jpg":                           "", // a single folder is not a classification
		"cat/1.jpg dog/1.jpg 1.jpg":                     "",
		"cat/1.jpg dog/a/1.jpg":                         "",
		"cat/1.txt dog/1.txt":                           "",
		"train/1.jpg val/1.jpg":                         "",
	} {
		if got := strings.Join(classesOf(t, strings.Fields(keys), build.Options{}), " "); got != want {
			t.Errorf("%s: got classes %q, want %q", keys, got, want)
		}
	}
	var many []string
	for i := range 3000 {
		many = append(many, fmt.Sprintf("folder-%08d/1.jpg", i))
	}
	if got := classesOf(t, many, build.Options{}); got != nil {
		t.Errorf("got %d classes, want none beyond the limit", len(got))
	}
	known := []string{"a", "b"}
	if got := classesOf(t, []string{"1.jpg"}, build.Options{Classes: known}); !slices.Equal(got, known) {
		t.Errorf("got %q, want those that the caller knows", got)
	}
}

// TestClassSamples checks that ClassSamples adds the samples of all folders of a class.
func TestClassSamples(t *testing.T) {
	for _, c := range []struct {
		keys, known string
		want        []uint64
	}{
		{"cat/1.jpg dog/1.png dog/2.JPG", "", []uint64{1, 2}},
		{"train/cat/1.jpg train/cat/2.jpg train/dog/1.jpg val/cat/1.jpg val/emu/1.jpg", "", []uint64{3, 1, 1}},
		{"a/1.jpg ab/1.jpg ab/2.jpg a-b/1.jpg", "", []uint64{1, 1, 2}},
		{"cat/1.jpg dog/1.jpg", "cat cow dog", []uint64{1, 0, 1}},
		{"cat/1.jpg dog/1.jpg", "cat cow", nil},
		{"cat/1.jpg", "", nil},
	} {
		var got []uint64
		opt := build.Options{Format: "files", Split: build.AllSplits, Inspect: func(x *chunkindex.Index) { got = x.ClassSamples() }}
		if c.known != "" {
			opt.Classes = strings.Fields(c.known)
		}
		if _, err := build.Run(t.Context(), shards(t, strings.Fields(c.keys)...), "", opt); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.keys, got, c.want)
		}
	}
}

// TestRun_NewClassNamesReuseScans checks that a change of class names does not invalidate scans.
func TestRun_NewClassNamesReuseScans(t *testing.T) {
	store := shards(t, "cat/1.jpg", "dog/1.jpg")
	first, err := build.Run(t.Context(), store, "", build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	known, err := build.Run(t.Context(), store, "", build.Options{Classes: []string{"cat", "cow", "dog"}})
	if err != nil || known.ReadBytes != 0 || known.Generation == first.Generation {
		t.Errorf("got %+v, %v, want another generation and nothing read", known, err)
	}
}
