package build_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// readOnly is a store that denies writes, like a public bucket.
type readOnly struct{ objstore.Store }

func (readOnly) Put(_ context.Context, key string, _ io.ReaderAt, _ int64, _ objstore.Condition) (objstore.Object, error) {
	return objstore.Object{}, fmt.Errorf("put %q: %w", key, objstore.ErrDenied)
}

func (readOnly) Delete(_ context.Context, key string) error {
	return fmt.Errorf("delete %q: %w", key, objstore.ErrDenied)
}

// TestRun_IndexElsewhere interrupts and repeats an index run on read-only data whose index is
// elsewhere. It then verifies the index and removes old generations.
func TestRun_IndexElsewhere(t *testing.T) {
	ctx := t.Context()
	data, home := memstore.New(), memstore.New()
	d := indextest.Write(t, data, spec())
	before := data.Keys()
	opt := spec().Build
	_, err := build.Run(ctx, readOnly{data}, prefix, opt)
	if !errors.Is(err, build.ErrReadOnly) || strings.Contains(err.Error(), "--single-writer") {
		t.Errorf("next to the data: got %v, want %v", err, build.ErrReadOnly)
	}
	at := build.Place{Store: home, Prefix: "indexes/photos/"}
	opt.Index, opt.Data, opt.Parallel = at, "s3://public/data", 1
	last := d.Shards[len(d.Shards)-1]
	data.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Key == last && c.Op == memstore.Open {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	if _, err := build.RunKeeping(ctx, readOnly{data}, prefix, opt, 1<<40, 1); err == nil {
		t.Fatal("the first run was not interrupted")
	}
	data.SetFault(nil)
	rep, err := build.Run(ctx, readOnly{data}, prefix, opt)
	if err != nil {
		t.Fatal(err)
	}
	if rep.ReusedShards == 0 {
		t.Errorf("got %+v, want the scans of the interrupted run to be used", rep)
	}
	again, err := build.Run(ctx, readOnly{data}, prefix, opt)
	if err != nil || !again.Unchanged || again.Generation != rep.Generation || again.ReadBytes != 0 {
		t.Errorf("again: got %+v, %v", again, err)
	}
	x, err := chunkindex.Open(ctx, home, at.Prefix, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	checkAgainst(t, data, prefix, x, d.Keys, d.Samples)
	bad := 0
	if err := chunkindex.Verify(ctx, x, data, prefix, 2, func(chunkindex.Progress) {}, func(chunkindex.BadRange) { bad++ }); err != nil || bad > 0 {
		t.Errorf("verify: got %d bad ranges, %v", bad, err)
	}
	if !slices.Equal(data.Keys(), before) {
		t.Errorf("next to the data: got %q, want only %q", data.Keys(), before)
	}
	for _, key := range home.Keys() {
		if !strings.HasPrefix(key, at.Prefix+".millrace/") {
			t.Errorf("got %q, want everything below %s.millrace/", key, at.Prefix)
		}
	}
	home.Set(at.Prefix+".millrace/index/"+strings.Repeat("ab", 32), []byte("old"))
	if gone, err := collect(ctx, home, at.Prefix, -time.Hour); err != nil || len(gone) != 1 {
		t.Errorf("gc: got %q, %v, want the one old index", gone, err)
	}
	// The same data with the index in the same location must have the same generation.
	if inPlace := indexed(t, data, spec().Build); inPlace.Generation != rep.Generation {
		t.Errorf("next to the data: got generation %s, want %s", inPlace.Generation, rep.Generation)
	}
}

// TestRun_NeverReplacesAnIndexOfOtherData checks that an index of some data never replaces an index
// of other data.
func TestRun_NeverReplacesAnIndexOfOtherData(t *testing.T) {
	ctx := t.Context()
	store := memstore.New()
	indextest.Write(t, store, indextest.Spec{Prefix: "a/", Sizes: []int{5}})
	indextest.Write(t, store, indextest.Spec{Prefix: "b/", Sizes: []int{6}})
	elsewhere := func(data string) build.Options {
		return build.Options{Index: build.Place{Store: store, Prefix: "x/"}, Data: data}
	}
	if _, err := build.Run(ctx, store, "a/", elsewhere("s3://bucket/a")); err != nil {
		t.Fatal(err)
	}
	_, err := build.Run(ctx, store, "b/", elsewhere("s3://bucket/b"))
	if err == nil || !strings.Contains(err.Error(), "x/.millrace/current belongs to s3://bucket/a") {
		t.Errorf("other data: got %v, want one that names both", err)
	}
	if _, err := build.Run(ctx, store, "b/", build.Options{}); err != nil {
		t.Fatal(err)
	}
	opt := elsewhere("s3://bucket/a")
	opt.Index.Prefix = "b/"
	if _, err := build.Run(ctx, store, "a/", opt); err == nil || !strings.Contains(err.Error(), "belongs to the shards stored with it") {
		t.Errorf("next to other data: got %v", err)
	}
}

// Links out of the directory are counted when skipped, and read when followed.
func TestRun_CountsAndFollowsLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	line := []byte("{\"a\": 1}\n{\"a\": 2}\n")
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "a.jsonl"), line, 0o644),
		os.WriteFile(filepath.Join(outside, "blob"), line, 0o644),
		os.Symlink(filepath.Join(outside, "blob"), filepath.Join(dir, "b.jsonl")),
		os.Symlink("nowhere", filepath.Join(dir, "c.jsonl")),
		os.Symlink("nowhere", filepath.Join(dir, "notes.md")),
		os.Symlink(outside, filepath.Join(dir, "more")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		open           func(string) (*dirstore.Store, error)
		samples, links int
	}{
		"passed over": {dirstore.New, 2, 3}, "followed": {dirstore.Follow, 4, 1},
	} {
		store, err := c.open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		rep, err := build.Run(t.Context(), store, "", build.Options{Match: "*.jsonl", Links: name == "followed"})
		if err != nil || rep.Samples != uint64(c.samples) || rep.Links != c.links || !slices.Contains([]string{"b.jsonl", "c.jsonl"}, rep.Link) {
			t.Errorf("%s: got %+v, %v, want %d samples and %d links", name, rep, err, c.samples, c.links)
		}
		x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if x.Links() != (name == "followed") {
			t.Errorf("%s: the index says links %v", name, x.Links())
		}
		x.Close()
	}
	// If all objects are links, the error names the option that follows links.
	all := t.TempDir()
	if err := os.Symlink(filepath.Join(outside, "blob"), filepath.Join(all, "b.jsonl")); err != nil {
		t.Fatal(err)
	}
	store, err := dirstore.New(all)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = build.Run(t.Context(), store, "", build.Options{})
	if !errors.Is(err, objstore.ErrNotFound) || !strings.Contains(err.Error(), "1 links, such as b.jsonl") || !strings.Contains(err.Error(), "--follow-links") {
		t.Errorf("nothing but links: got %v", err)
	}
}

func TestRun_DetectsClassFolders(t *testing.T) {
	for _, c := range []struct {
		keys string
		want int
	}{
		{"cat/1.jpg cat/2.JPG dog/1.png", 2}, {"1.jpg cat/1.jpg", 0}, {"cat/1.jpg dog/notes.txt", 0}, {"train/cat/1.jpg", 0},
	} {
		store := memstore.New()
		for key := range strings.FieldsSeq(c.keys) {
			store.Set(key, []byte("x"))
		}
		rep, err := build.Run(t.Context(), store, "", build.Options{Format: "files"})
		if err != nil || rep.ClassFolders != c.want {
			t.Errorf("%s: got %d, %v, want %d", c.keys, rep.ClassFolders, err, c.want)
		}
		if _, err := build.Run(t.Context(), store, "", build.Options{Format: "files", SpareClassFolders: true}); err != nil {
			t.Errorf("%s: got %v where an index lies already", c.keys, err)
		}
	}
}
