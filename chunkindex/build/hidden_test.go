package build

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestRun_SkipsHiddenObjects checks that hidden objects are neither samples nor shards of any
// format, and that they are counted.
func TestRun_SkipsHiddenObjects(t *testing.T) {
	small, _ := indexedTars(t)
	shard, _ := small.Bytes("a.tar")
	for format, name := range map[string]string{"files": "photo%d.jpg", "tar": "shard%d.tar", "jsonl": "part%d.jsonl"} {
		body := map[string]string{"files": "x", "tar": string(shard), "jsonl": "{}\n"}[format]
		store := memstore.New()
		store.Set(fmt.Sprintf(name, 1), []byte(body))
		for _, junk := range []string{".DS_Store", "d/.DS_Store", "._" + fmt.Sprintf(name, 1), ".cache/d/" + fmt.Sprintf(name, 1), "Thumbs.db", "d/desktop.ini"} {
			store.Set(junk, []byte("no sample"))
		}
		store.Set("d/.gitkeep", nil) // if it were not hidden, the empty sample would be rejected
		rep, err := Run(t.Context(), store, "", Options{})
		if err != nil || rep.Format != format || rep.Shards != 1 || rep.Ignored != 0 || rep.Hidden != 7 || rep.HadHidden != 0 {
			t.Errorf("%s: got %+v, %v, want one shard, and 7 hidden objects", format, rep, err)
		}
		if rep, err = Run(t.Context(), store, "", Options{Match: "*.ini", Hidden: true, Format: "files"}); err != nil || rep.Shards != 1 || rep.Hidden != 0 {
			t.Errorf("%s, asked for: got %+v, %v, want desktop.ini", format, rep, err)
		}
	}
	store := memstore.New()
	store.Set(".DS_Store", []byte("no sample"))
	if _, err := Run(t.Context(), store, "", Options{}); err == nil || !strings.Contains(err.Error(), "0 objects, and 1 hidden (include them with --hidden") {
		t.Errorf("nothing else: got %v, want how to take it", err)
	}
}

// TestRun_ReportsHiddenSamples runs without --hidden on an index that has hidden objects as
// samples. The run must drop and report them. An index depends only on the objects and options,
// never on the previous index.
func TestRun_ReportsHiddenSamples(t *testing.T) {
	store := memstore.New()
	for _, key := range []string{".a/b.jpg", "c.jpg", "d/.DS_Store", "e/.f.jpg"} {
		store.Set(key, []byte(key))
	}
	with, err := Run(t.Context(), store, "", Options{Hidden: true, Format: "files"})
	if err != nil || with.Samples != 4 || with.HadHidden != 0 {
		t.Fatalf("got %+v, %v, want 4 samples", with, err)
	}
	store.Set("d/.g.jpg", []byte("new")) // was in no earlier index
	store.Delete(t.Context(), "e/.f.jpg")
	without, err := Run(t.Context(), store, "", Options{})
	if err != nil || without.Samples != 1 || without.Hidden != 3 || without.HadHidden != 2 {
		t.Errorf("got %+v, %v, want one sample, 3 left out, 2 of which were samples", without, err)
	}
	store.Delete(t.Context(), "d/.g.jpg")
	store.Set("e/.f.jpg", []byte("e/.f.jpg"))
	if back, err := Run(t.Context(), store, "", Options{Hidden: true, Format: "files"}); err != nil || back.Generation != with.Generation {
		t.Errorf("asked for again: got %+v, %v, want generation %s", back, err, with.Generation)
	}
}
