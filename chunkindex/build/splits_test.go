package build_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// shards returns a store with one small valid object for each key: a tar, or a JSON line if the
// suffix is not ".tar".
func shards(t *testing.T, keys ...string) *memstore.Store {
	t.Helper()
	store := memstore.New()
	for i, key := range keys {
		if strings.HasSuffix(key, ".tar") {
			store.Set(key, indextest.Write(t, memstore.New(), indextest.Spec{Sizes: []int{5 + i}}).Bodies[0])
		} else {
			store.Set(key, fmt.Appendf(nil, "{\"n\": %d}\n", i))
		}
	}
	return store
}

// told returns the splits from which an index run asks the user to select. If the run succeeds,
// told returns the shards that it indexed.
func told(t *testing.T, store *memstore.Store, opt build.Options) string {
	t.Helper()
	var keys []string
	opt.Inspect = func(x *chunkindex.Index) {
		for i := range x.Shards() {
			keys = append(keys, x.Shard(i).Key)
		}
	}
	_, err := build.Run(t.Context(), store, "", opt)
	several, ok := errors.AsType[*build.SplitsError](err)
	switch {
	case ok:
		var all []string
		for _, s := range several.Splits {
			all = append(all, fmt.Sprint(s.Label(), " ", s.Shards))
		}
		return several.Wanted + "? " + strings.Join(all, ", ")
	case err != nil:
		return err.Error()
	}
	return strings.Join(keys, " ")
}

// TestRun_RejectsSeveralSplits checks that shards whose names indicate training data and other
// splits are rejected until the user selects one split or all splits.
func TestRun_RejectsSeveralSplits(t *testing.T) {
	for name, c := range map[string]struct{ keys, want string }{
		"shards":            {"imagenet-train-0.tar imagenet-train-1.tar imagenet-val-0.tar", "? train 2, val 1"},
		"folders":           {"data/train/0.tar data/valid/0.tar data/test/0.tar", "? train 1, val 1, test 1"},
		"lines":             {"train.jsonl validation.jsonl", "? train 1, val 1"},
		"capitals, numbers": {"Train2017.tar Dev2017.tar", "? train 1, val 1"},
		"training alone":    {"train-0.tar train-1.tar", "train-0.tar train-1.tar"},
		"no training":       {"val-0.tar test-0.tar", "test-0.tar val-0.tar"},
		"parts of words":    {"trainer-0.tar contest-0.tar trainval-0.tar", "contest-0.tar trainer-0.tar trainval-0.tar"},
		"other objects":     {"train-0.tar test.py test.md", "train-0.tar"},
		"names of pictures": {"cars/train.jpg cars/test.jpg", "cars/test.jpg cars/train.jpg"},
		"loose in folders":  {"train/cat/1.jpg val/cat/1.jpg", "? train 1, val 1"},
	} {
		if got := told(t, shards(t, strings.Fields(c.keys)...), build.Options{}); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestRun_ChoosesSplits(t *testing.T) {
	store := shards(t, "a-train-0.tar", "a-train-1.tar", "a-val-0.tar", "extra.tar")
	for _, c := range []struct{ split, match, want string }{
		{"train", "", "a-train-0.tar a-train-1.tar"},
		{"training", "", "a-train-0.tar a-train-1.tar"},
		{"validation", "", "a-val-0.tar"},
		{"train", "*-1.tar", "a-train-1.tar"},
		{"test", "", "split test? train 2, val 1"},
		{"", "*-train-*", "a-train-0.tar a-train-1.tar"},
		{"", "a-*", "? train 2, val 1"},
		{build.AllSplits, "", "a-train-0.tar a-train-1.tar a-val-0.tar extra.tar"},
	} {
		if got := told(t, store, build.Options{Split: c.split, Match: c.match}); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.split, c.match, got, c.want)
		}
	}
	if got := told(t, shards(t, "a.tar"), build.Options{Split: "train"}); !strings.Contains(got, "split train? ") {
		t.Errorf("no description of splits: got %q", got)
	}
}

// card returns the README.md of a repository with these configurations.
func card(configs string) []byte {
	return []byte("---\nlicense: mit\nconfigs:\n" + configs + "---\n# Pairs\n")
}

// TestRun_SplitsOfReadme checks that the metadata in README.md can define splits with any name and
// with files in any location.
func TestRun_SplitsOfReadme(t *testing.T) {
	one := card("- config_name: default\n  data_files:\n  - split: train_sft\n    path: data/train_sft-*\n  - split: train_gen\n    path: [data/train_gen-*, more/**/x.tar]\n")
	keys := []string{"data/train_gen-0.tar", "data/train_sft-0.tar", "data/train_sft-1.tar", "more/a/b/x.tar"}
	two := card("- config_name: en\n  data_files:\n  - split: train\n    path: en/a-*\n  - split: test\n    path: en/b-*\n- config_name: de\n  data_files: de/*\n")
	languages := []string{"de/0.tar", "en/a-0.tar", "en/b-0.tar"}
	for _, c := range []struct {
		card          []byte
		keys          []string
		config, split string
		want          string
	}{
		{one, keys, "", "", "? train_sft 2, train_gen 2"},
		{one, keys, "", "train_sft", "data/train_sft-0.tar data/train_sft-1.tar"},
		{one, keys, "", "train_gen", "data/train_gen-0.tar more/a/b/x.tar"},
		{one, keys, "default", "train_gen", "data/train_gen-0.tar more/a/b/x.tar"},
		{one, keys, "", "all", strings.Join(keys, " ")},
		{one, keys, "", "val", "split val? train_sft 2, train_gen 2"},
		{one, append(slices.Clone(keys), "test-0.tar"), "", "test", "test-0.tar"}, // the card does not list this shard
		{two, languages, "", "", "? en/train 1, en/test 1, de/train 1"},
		{two, languages, "", "train", "split train? en/train 1, en/test 1, de/train 1"},
		{two, languages, "en", "train", "en/a-0.tar"},
		{two, languages, "en", "validation", "split validation of configuration en? en/train 1, en/test 1, de/train 1"},
		{two, languages, "en", "", "? train 1, test 1"},
		{two, languages, "en", "all", "en/a-0.tar en/b-0.tar"},
		{two, languages, "de", "", "de/0.tar"},
		{two, languages, "fr", "", "configuration fr? en/train 1, en/test 1, de/train 1"},
		{[]byte("---\nconfigs: [\n---\n"), languages, "", "", strings.Join(languages, " ")}, // invalid description
	} {
		store := shards(t, c.keys...)
		store.Set("README.md", c.card)
		if got := told(t, store, build.Options{Config: c.config, Split: c.split}); got != c.want {
			t.Errorf("%.60q, configuration %q, split %q: got %q, want %q", c.card, c.config, c.split, got, c.want)
		}
	}
	store := shards(t, languages...)
	store.Set("README.md", card("- config_name: en\n  data_files: ../*\n"))
	if got := told(t, store, build.Options{Config: "en"}); !strings.Contains(got, `README.md: configuration en: "../*"`) {
		t.Errorf("a card that is refused: got %q", got)
	}
}

// TestRun_SplitsOfDatasetDict checks that the dataset_dict.json of save_to_disk defines the splits,
// even if a pattern excludes that file.
func TestRun_SplitsOfDatasetDict(t *testing.T) {
	store := shards(t, "first/0.tar", "second/0.tar")
	store.Set("dataset_dict.json", []byte(`{"splits": ["first", "second"]}`))
	for _, c := range []struct{ split, match, want string }{
		{"", "", "? first 1, second 1"},
		{"second", "", "second/0.tar"},
		{"first", "*.tar", "first/0.tar"},
	} {
		if got := told(t, store, build.Options{Split: c.split, Match: c.match}); got != c.want {
			t.Errorf("split %q: got %q, want %q", c.split, got, c.want)
		}
	}
}

// TestRun_ErrorsNameTheSplits checks that the error lists the splits if the objects together have
// no single format, because each split may have one.
func TestRun_ErrorsNameTheSplits(t *testing.T) {
	got := told(t, shards(t, "train-0.tar", "val.jsonl"), build.Options{})
	if !strings.Contains(got, "several kinds of objects found") || !strings.Contains(got, "train, val: choose one with --split") {
		t.Errorf("got %q, want the splits named", got)
	}
}

func TestRun_RejectsACacheRepository(t *testing.T) {
	store := shards(t, "blobs/0123", "snapshots/0a1b/train-0.tar", "snapshots/2c3d/train-0.tar")
	store.Set("refs/main", []byte("2c3d\n"))
	if got := told(t, store, build.Options{}); !strings.Contains(got, "the subdirectory snapshots/2c3d") {
		t.Errorf("got %q, want the snapshot named", got)
	}
}

// TestRun_SplitsOfEnergon checks that the shard names of Energon datasets do not indicate splits,
// and that .nv-meta lists the held-out shards.
func TestRun_SplitsOfEnergon(t *testing.T) {
	const three = "exclude: []\nsplit_parts:\n  train:\n  - shards/{0..1}.tar\n  val:\n  - shards/2.tar\n  test: []\n"
	for _, c := range []struct{ name, text, split, want string }{
		{".nv-meta/split.yaml", three, "", "? train 2, val 1"},
		{".nv-meta/split.yaml", three, "train", "shards/0.tar shards/1.tar"},
		{".nv-meta/split.yaml", three, "validation", "shards/2.tar"},
		{".nv-meta/split.yaml", three, "all", "shards/0.tar shards/1.tar shards/2.tar"},
		{".nv-meta/split.json", `{"split_parts": {"train": ["shards/0.tar"], "val": ["shards/1.tar", "shards/2.tar"]}}`, "", "? train 1, val 2"},
		{".nv-meta/split.yaml", "exclude: [shards/1.tar]\nsplit_parts: {train: ['shards/{0..2}.tar']}", "", "? train 2, excluded 1"},
		{".nv-meta/split.yaml", "split_parts: {train: ['shards/{0..2}.tar']}", "", "shards/0.tar shards/1.tar shards/2.tar"},
		{".nv-meta/split.yaml", "split_parts: {train: ['shards/{a..c}.tar']}", "", "index \"\": object .nv-meta/split.yaml: braces in \"shards/{a..c}.tar\": use {000..012} or {a,b}"},
		{".nv-meta/dataset.yaml", "sample_type: {}", "", "shards/0.tar shards/1.tar shards/2.tar"},
	} {
		store := shards(t, "shards/0.tar", "shards/1.tar", "shards/2.tar")
		store.Set(c.name, []byte(c.text))
		if got := told(t, store, build.Options{Split: c.split}); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.name, c.split, got, c.want)
		}
	}
}
