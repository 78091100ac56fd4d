package dirstore_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/objstore/dirstore"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestForeignFiles: files that are not objects are neither listed nor read.
func TestForeignFiles(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write(t, outside, "secret")
	write(t, filepath.Join(dir, "a"), "a")
	write(t, filepath.Join(dir, ".millrace-tmp-x"), "torn")
	write(t, filepath.Join(dir, ".millrace-lock"), "")
	for name, target := range map[string]string{"out": outside, "dangling": "none", "loop": "loop", "inside": "a", "dir": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var got []string
	err = s.List(t.Context(), "", func(o objstore.Object) error { got = append(got, o.Key); return nil })
	if want := []string{"a", "inside"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, key := range []string{"out", "dangling", "loop", "dir", "../secret", ".millrace-tmp-x", ".millrace-lock"} {
		if err := s.ReadRange(t.Context(), objstore.Ref{Key: key}, 0, make([]byte, 1)); err == nil {
			t.Errorf("read %q gave no error", key)
		}
	}
}

// TestPut_RemovesAbandonedFiles: the next write to a directory removes temporary files that were
// abandoned a day ago, and no other files.
func TestPut_RemovesAbandonedFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := dirstore.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old := time.Now().Add(-25 * time.Hour)
	for _, name := range []string{".millrace-tmp-old", ".millrace-tmp-new", "object"} {
		write(t, filepath.Join(dir, name), "x")
	}
	for _, name := range []string{".millrace-tmp-old", "object"} {
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put(t.Context(), "a", strings.NewReader("a"), 1, objstore.Condition{}); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Name() != ".millrace-lock" {
			got = append(got, e.Name())
		}
	}
	if want := []string{".millrace-tmp-new", "a", "object"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRewriteDuringRead rewrites and truncates the file in place between two reads of one reader.
func TestRewriteDuringRead(t *testing.T) {
	for _, text := range []string{strings.Repeat("b", 100), "b", strings.Repeat("b", 200)} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		write(t, path, strings.Repeat("a", 100))
		s, err := dirstore.New(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		o, err := s.Stat(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Open(t.Context(), o.Ref(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
		later := o.Modified.Add(1)
		if err := os.Chtimes(path, later, later); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("got %d, %v, want %v", n, err, objstore.ErrChanged)
		}
	}
}

// TestStore_RenewsReplacedDirectory removes the directory under a store, and moves another one to
// its path. The store then has the objects at the path, whichever method is called first.
func TestStore_RenewsReplacedDirectory(t *testing.T) {
	got := make([]byte, 3)
	read := func(s *dirstore.Store) error { return s.ReadRange(t.Context(), objstore.Ref{Key: "a"}, 0, got) }
	for name, ask := range map[string]func(s *dirstore.Store) error{
		"read": func(*dirstore.Store) error { return nil },
		"stat": func(s *dirstore.Store) error {
			_, err := s.Stat(t.Context(), "a")
			return err
		},
		"open": func(s *dirstore.Store) error {
			r, err := s.Open(t.Context(), objstore.Ref{Key: "a"}, 0)
			if err == nil {
				r.Close()
			}
			return err
		},
		"list": func(s *dirstore.Store) error {
			n := 0
			err := s.List(t.Context(), "", func(objstore.Object) error { n++; return nil })
			if n != 1 {
				t.Errorf("got a list of %d objects, want 1", n)
			}
			return err
		},
		"put": func(s *dirstore.Store) error {
			_, err := s.Put(t.Context(), "a", strings.NewReader("new"), 3, objstore.Condition{})
			return err
		},
	} {
		for _, open := range []func(string) (*dirstore.Store, error){dirstore.New, dirstore.Follow} {
			dir := filepath.Join(t.TempDir(), "data")
			remake := func(text string) {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "a"), text)
			}
			remake("old")
			s, err := open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			o, err := s.Stat(t.Context(), "a")
			if err != nil || read(s) != nil || string(got) != "old" {
				t.Fatalf("got %q, %v", got, err)
			}
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := read(s); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("%s: got %v without a directory, want %v", name, err, objstore.ErrNotFound)
			}
			remake("new")
			if err := ask(s); err != nil {
				t.Errorf("%s in the new directory: %v", name, err)
			}
			if err := read(s); err != nil || string(got) != "new" {
				t.Errorf("after %s: got %q, %v, want the new object", name, got, err)
			}
			if err := s.ReadRange(t.Context(), o.Ref(), 0, got); !errors.Is(err, objstore.ErrChanged) {
				t.Errorf("the old version: got %v, want %v", err, objstore.ErrChanged)
			}
			if err := os.Rename(dir, dir+"-aside"); err != nil {
				t.Fatal(err)
			}
			remake("3rd")
			if err := ask(s); err != nil {
				t.Errorf("%s in the moved directory: %v", name, err)
			}
		}
	}
}

// TestStore_MissingDirectoryIsUnavailable: an unmounted directory is unavailable, and its objects
// are back after it is mounted again.
func TestStore_MissingDirectoryIsUnavailable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a"), "text")
	s, err := dirstore.Follow(dir) // a store that follows links uses the path for each read
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := s.Stat(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want error, do ...error) {
		t.Helper()
		if err := errors.Join(do...); err != nil {
			t.Fatal(err)
		}
		if err := s.ReadRange(t.Context(), o.Ref(), 0, make([]byte, 4)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", when, err, want)
		}
	}
	check("renamed", objstore.ErrUnavailable, os.Rename(dir, dir+"-away"))
	check("an empty mount point", objstore.ErrUnavailable, os.Mkdir(dir, 0o755))
	check("renamed back", nil, os.Remove(dir), os.Rename(dir+"-away", dir))
	write(t, filepath.Join(dir, "b"), "text")
	check("the file alone is missing", objstore.ErrNotFound, os.Remove(filepath.Join(dir, "a")))
	if s, err = dirstore.New(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if o, err = s.Stat(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	check("removed", objstore.ErrUnavailable, os.RemoveAll(dir))
}
