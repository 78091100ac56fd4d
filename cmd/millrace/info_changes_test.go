package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/millrace-data/millrace/cmd/internal/inventory"
)

// touch writes files into a directory. The content of each is its name.
func touch(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// checkChanges compares the changes that info reports with the expected ones.
func checkChanges(t *testing.T, address string, want *inventory.Changes) {
	t.Helper()
	got := read[inventory.Description](t, "info", address)
	if d := cmp.Diff(want, got.Changes, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: changes differ (-want +got):\n%s", address, d)
	}
}

// tick waits until the file system's clock advances: files that are written afterwards are newer
// than those before.
func tick(t *testing.T) {
	t.Helper()
	at := filepath.Join(t.TempDir(), "tick")
	made := func() time.Time {
		if err := os.WriteFile(at, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(at)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	for before := made(); !made().After(before); {
	}
}

// TestInfo_ReportsChangedFiles: info reports the number of changed files, with an example, until
// the directory is indexed again.
func TestInfo_ReportsChangedFiles(t *testing.T) {
	dir := t.TempDir()
	touch(t, dir, "a.txt", "b.txt", "sub/c.txt", "d.txt", "e.txt", "README.md")
	ok(t, "index", dir, "--match", "*.txt")
	checkChanges(t, dir, nil)
	tick(t)
	touch(t, dir, "sub/old.txt", "z.txt", ".hidden.txt", ".git/f.txt", "__MACOSX/f.txt", "new.md")
	if err := os.Chtimes(filepath.Join(dir, "z.txt"), time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil { // like a copy that keeps the modification time
		t.Fatal(err)
	}
	for _, gone := range []string{"b.txt", "d.txt"} {
		if err := os.Remove(filepath.Join(dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "e.txt"), []byte("another text"), 0o666); err != nil {
		t.Fatal(err)
	}
	checkChanges(t, dir, &inventory.Changes{
		New: &inventory.Files{Files: 2, Example: "sub/old.txt"}, Gone: &inventory.Files{Files: 2, Example: "b.txt"},
		Rewritten: &inventory.Files{Files: 1, Example: "e.txt"},
	})
	want := "files changed  2 new (such as sub/old.txt), 2 gone (such as b.txt), 1 rewritten or copied (such as e.txt): 'millrace index file://" + dir + "' with"
	if text := ok(t, "info", dir).stdout; !strings.Contains(text, want) {
		t.Errorf("got\n%s\nwant %q in it", text, want)
	}
	ok(t, "index", dir, "--match", "*.txt")
	checkChanges(t, dir, nil)
	if text := ok(t, "info", dir).stdout; strings.Contains(text, "changed") {
		t.Errorf("got\n%s\nwant no word of changes", text)
	}
}

// TestInfo_ComparesFilesWithSeparateIndex: the comparison works with an index that the address
// names, and with one in the user's cache.
func TestInfo_ComparesFilesWithSeparateIndex(t *testing.T) {
	dir, at := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	touch(t, dir, "cat/1.jpg", "dog/2.jpg", "dog/3.jpg")
	ok(t, "index", dir)
	ok(t, "index", dir, "--index-url", at)
	elsewhere := dir + ",index=" + at
	if _, err := os.Stat(filepath.Join(dir, ".millrace")); err == nil {
		t.Fatal("the index of class folders lies beside them, want the user's cache")
	}
	for _, address := range []string{dir, elsewhere} {
		checkChanges(t, address, nil)
	}
	if err := os.Remove(filepath.Join(dir, "dog/3.jpg")); err != nil {
		t.Fatal(err)
	}
	for address, cure := range map[string]string{dir: "file://" + dir + "'", elsewhere: "file://" + dir + ",index=file://" + at + "'"} {
		checkChanges(t, address, &inventory.Changes{Gone: &inventory.Files{Files: 1, Example: "dog/3.jpg"}})
		if text := ok(t, "info", address).stdout; !strings.Contains(text, "'millrace index "+cure) {
			t.Errorf("got\n%s\nwant the cure %q", text, cure)
		}
	}
}

// TestInfo_FilesOmittedByIndexAreNotNew: files that existed when the index was made, and are not in
// it, do not count as new.
func TestInfo_FilesOmittedByIndexAreNotNew(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	touch(t, dir, "01.txt", "02.txt", "11.txt")
	ok(t, "index", dir, "--match", "0*.txt")
	checkChanges(t, dir, nil)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	got := read[inventory.Description](t, "info", copied).Changes
	if got == nil || !cmp.Equal(got.Rewritten, &inventory.Files{Files: 2, Example: "01.txt"}) {
		t.Errorf("a copy: got %+v, want 2 files rewritten or copied", got)
	}
}
