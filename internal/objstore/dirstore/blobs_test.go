package dirstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
)

// TestStore_FollowsBlobsOfASnapshot: links to the blobs of the same repository are followed, and no
// others.
func TestStore_FollowsBlobsOfASnapshot(t *testing.T) {
	cache := t.TempDir()
	repo := filepath.Join(cache, "datasets--me--pairs")
	snapshot := filepath.Join(repo, "snapshots", "0a1b2c")
	for _, dir := range []string{filepath.Join(snapshot, "data"), filepath.Join(repo, "blobs", "deeper"), filepath.Join(cache, "datasets--other", "blobs")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(repo, "blobs", "1"), "one")
	write(t, filepath.Join(repo, "blobs", "deeper", "2"), "two")
	write(t, filepath.Join(repo, "refs"), "ref")
	write(t, filepath.Join(cache, "datasets--other", "blobs", "1"), "three")
	write(t, filepath.Join(snapshot, "plain"), "plain")
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("../../../blobs/1", "data/one")
	link(filepath.Join(repo, "blobs", "1"), "absolute")
	link("../../blobs/deeper/2", "below")
	link("../../refs", "ref")
	link("../../../datasets--other/blobs/1", "other")
	link("/etc/hostname", "host")
	link("../../blobs/none", "nowhere")
	link("../../blobs", "all")
	link("../../datasets--other/blobs/1", "../../blobs/onward") // the blob itself is a link
	link("../../blobs/onward", "onward")
	for dir, want := range map[string][]string{
		snapshot:                        {"absolute", "data/one", "plain"},
		filepath.Join(snapshot, "data"): {"one"},
		filepath.Join(repo, "blobs"):    {"1", "deeper/2"},
	} {
		s, err := dirstore.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = s.List(t.Context(), "", func(o objstore.Object) error { got = append(got, o.Key); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v, want %q", dir, got, err, want)
		}
		s.Close()
	}
	named := filepath.Join(cache, "uploads")
	if err := os.Symlink(repo, named); err != nil {
		t.Fatal(err)
	}
	other, err := dirstore.New(filepath.Join(named, "snapshots", "0a1b2c"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Stat(t.Context(), "data/one"); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("a directory without the name of a repository: got %v, want the link refused", err)
	}
	s, err := dirstore.New(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := make([]byte, 3)
	if err := s.ReadRange(t.Context(), objstore.Ref{Key: "data/one"}, 0, b); err != nil || string(b) != "one" {
		t.Errorf("got %q, %v", b, err)
	}
	for _, key := range []string{"below", "ref", "other", "host", "nowhere", "all", "onward", "all/1"} {
		if err := s.ReadRange(t.Context(), objstore.Ref{Key: key}, 0, b); err == nil {
			t.Errorf("read %s: got %q, want it refused", key, b)
		} else if !errors.Is(err, objstore.ErrNotFound) && !errors.Is(err, objstore.ErrDenied) {
			t.Errorf("read %s: got %v", key, err)
		}
	}
	var passed []string
	err = s.ListLinks(t.Context(), "", func(objstore.Object) error { return nil }, func(key string, _ bool) { passed = append(passed, key) })
	if want := []string{"all", "below", "host", "nowhere", "onward", "other", "ref"}; err != nil || !slices.Equal(passed, want) {
		t.Errorf("passed over: got %q, %v, want %q", passed, err, want)
	}
}
