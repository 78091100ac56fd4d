package pack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// contents returns the contents of all members of the shards in a store, by name.
func contents(t *testing.T, store *memstore.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, m := range members(t, store) {
		all[m.Name] = m.Content
	}
	return all
}

// TestLabelsAreTheDirectories checks that each sample gets the number of its directory. A new
// directory changes the numbers, and therefore the content of the affected shards.
func TestLabelsAreTheDirectories(t *testing.T) {
	dir := tree(t, map[string]string{"dog/1.jpg": "d", "cat/1.jpg": "c", "cat/1.txt": "a cat", "emu/2.jpg": "e"})
	store := memstore.New()
	opt := Options{Label: LabelDirectory}
	r := mustPack(t, store, opt, dir)
	if want := []string{"cat", "dog", "emu"}; !slices.Equal(r.Classes, want) || r.Files != 4 || r.Samples != 3 {
		t.Errorf("got %+v, want the classes %q", r, want)
	}
	got := contents(t, store)
	for name, want := range map[string]string{"cat/1.cls": "0", "dog/1.cls": "1", "emu/2.cls": "2", "cat/1.txt": "a cat", "dog/1.jpg": "d"} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	if again := mustPack(t, store, opt, dir); again.ReusedShards != again.Shards {
		t.Errorf("again: got %+v, want nothing sent", again)
	}
	// A new class that sorts between the others changes their numbers, although their files are
	// unchanged.
	if err := os.Mkdir(filepath.Join(dir, "cow"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cow", "1.jpg"), []byte("m"), 0o600); err != nil {
		t.Fatal(err)
	}
	store = memstore.New()
	mustPack(t, store, opt, dir)
	if got := contents(t, store); got["cow/1.cls"] != "1" || got["dog/1.cls"] != "2" {
		t.Errorf("got %q", got)
	}
}

// TestStamp_CoversLabels checks that the same files with other class numbers have another stamp.
func TestStamp_CoversLabels(t *testing.T) {
	dir := tree(t, map[string]string{"dog/1.jpg": "d", "cat/1.jpg": "c"})
	found, err := walk(t.Context(), []string{dir}, Options{})
	defer found.close()
	if err != nil {
		t.Fatal(err)
	}
	stamps := map[string]bool{}
	for _, text := range []string{"0", "1"} {
		stamps[stamp([]sample{{key: "dog/1", members: []file{found.files[0], {name: "dog/1.cls", text: text}}}})] = true
	}
	if len(stamps) != 2 {
		t.Error("got the same stamp for another number")
	}
}

func TestLabelsAreRefused(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"is not in a directory":     {"cat/1.jpg": "c", "2.jpg": "x"},
		"with different parents":    {"train/cat/1.jpg": "c", "val/cat/1.jpg": "x"},
		"already is a .cls file":    {"cat/1.jpg": "c", "cat/1.cls": "7"},
		"label \"folder\": must be": {},
	} {
		opt := Options{Label: LabelDirectory}
		if len(files) == 0 {
			files, opt.Label = map[string]string{"a/1.jpg": "x"}, "folder"
		}
		if _, err := Pack(t.Context(), []string{tree(t, files)}, memstore.New(), "out", opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
