package dirstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
)

// linked makes a directory with links of every kind, and their targets outside.
func linked(t *testing.T) (dir, outside string) {
	t.Helper()
	dir, outside = t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "a"), "a")
	write(t, filepath.Join(outside, "blob"), "blob")
	if err := os.MkdirAll(filepath.Join(outside, "more", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(outside, "more", "deep", "c"), "c")
	for name, target := range map[string]string{
		"b": filepath.Join(outside, "blob"), "inside": "a", "nowhere": "none", "loop": "loop", "dir": filepath.Join(outside, "more"),
		"here": ".", "null": "/dev/null",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..", filepath.Join(outside, "more", "deep", "back")); err != nil {
		t.Fatal(err)
	}
	return dir, outside
}

// listed returns the keys of a listing, and the links that the store does not list. Links to
// directories end in a slash.
func listed(t *testing.T, s *dirstore.Store, prefix string) (keys, passed []string) {
	t.Helper()
	err := s.ListLinks(t.Context(), prefix, func(o objstore.Object) error { keys = append(keys, o.Key); return nil }, func(key string, dir bool) {
		if dir {
			key += "/"
		}
		passed = append(passed, key)
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys, passed
}

func TestListLinks_ReportsUnfollowedLinks(t *testing.T) {
	dir, _ := linked(t)
	s, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys, passed := listed(t, s, "")
	if want := []string{"a", "inside"}; !slices.Equal(keys, want) {
		t.Errorf("got keys %q, want %q", keys, want)
	}
	if want := []string{"b", "dir/", "here/", "loop", "nowhere", "null"}; !slices.Equal(passed, want) {
		t.Errorf("passed over %q, want %q", passed, want)
	}
	_, err = s.Open(t.Context(), objstore.Ref{Key: "b"}, 0)
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "links=follow") {
		t.Errorf("got %v, want an error that names links=follow", err)
	}
}

// TestStore_FileReplacedByLinkIsChanged: a file that was replaced by a link out of the directory
// after it was listed is another version. The error is ErrChanged and not ErrDenied.
func TestStore_FileReplacedByLinkIsChanged(t *testing.T) {
	dir, outside := linked(t)
	s, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.Stat(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "a")), os.Symlink(filepath.Join(outside, "blob"), filepath.Join(dir, "a"))); err != nil {
		t.Fatal(err)
	}
	err = s.ReadRange(t.Context(), a.Ref(), 0, make([]byte, 1))
	if !errors.Is(err, objstore.ErrChanged) || errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "a link leads out") {
		t.Errorf("got %v, want %v that names the cause", err, objstore.ErrChanged)
	}
}

func TestFollow_FollowsLinks(t *testing.T) {
	dir, outside := linked(t)
	s, err := dirstore.Follow(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	keys, passed := listed(t, s, "")
	if want := []string{"a", "b", "dir/deep/c", "inside"}; !slices.Equal(keys, want) {
		t.Errorf("got keys %q, want %q", keys, want)
	}
	if want := []string{"dir/deep/back/", "here/", "loop", "nowhere", "null"}; !slices.Equal(passed, want) {
		t.Errorf("passed over %q, want %q", passed, want)
	}
	if keys, _ := listed(t, s, "dir/deep/"); !slices.Equal(keys, []string{"dir/deep/c"}) {
		t.Errorf("below a link: got %q", keys)
	}
	b, err := s.Stat(t.Context(), "b")
	if err != nil || b.Size != 4 {
		t.Fatalf("got %+v, %v", b, err)
	}
	got := make([]byte, 4)
	if err := s.ReadRange(t.Context(), b.Ref(), 0, got); err != nil || string(got) != "blob" {
		t.Errorf("got %q, %v", got, err)
	}
	// A link whose target has changed since it was listed is another version.
	other := filepath.Join(outside, "secret")
	write(t, other, "secr")
	if err := errors.Join(os.Remove(filepath.Join(dir, "b")), os.Symlink(other, filepath.Join(dir, "b"))); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadRange(t.Context(), b.Ref(), 0, got); !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("a changed link: got %v, want %v", err, objstore.ErrChanged)
	}
	for _, key := range []string{"../" + filepath.Base(outside) + "/blob", "null", "nowhere", "dir/../../x"} {
		if err := s.ReadRange(t.Context(), objstore.Ref{Key: key}, 0, got); err == nil {
			t.Errorf("read %q gave no error", key)
		}
	}
	// Nothing is written through a link.
	if _, err := s.Put(t.Context(), "dir/new", strings.NewReader("x"), 1, objstore.Condition{}); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("a write through a link: got %v, want %v", err, objstore.ErrDenied)
	}
	if err := s.Delete(t.Context(), "dir/deep/c"); err == nil {
		t.Error("a file outside of the directory was deleted")
	}
	if _, err := os.Stat(filepath.Join(outside, "more", "deep", "c")); err != nil {
		t.Error(err)
	}
}
