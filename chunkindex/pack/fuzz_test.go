package pack

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// FuzzRoundTrip packs two files with any names and contents, and reads them back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("a.jpg", "b.cls", []byte("content"), false)
	f.Add("a.jpg", "a.cls", []byte(""), true)
	f.Add(strings.Repeat("x/", 130)+"long", "ü.txt", make([]byte, 513), false)
	f.Add(strings.Repeat("x", 101)+".b", ".a.b", make([]byte, 512), true)
	f.Add("a\n1.b", "a b/c.d.e", []byte("\x00"), true)
	f.Add("dir/a", "dir/a.", []byte("1"), false)
	f.Fuzz(func(t *testing.T, one, two string, content []byte, byPath bool) {
		for _, name := range []string{one, two} {
			if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) || len(name) > 2000 {
				return
			}
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		for i, name := range []string{one, two} {
			if root.MkdirAll(path.Dir(name), 0o700) != nil || root.WriteFile(name, content[:len(content)/(i+1)], 0o600) != nil {
				return // one name is a parent directory of the other name, or a name is too long for the file system
			}
		}
		opt := Options{Hidden: true, ShardSize: 4096, Key: KeyGroup}
		want := map[string]string{one: string(content)}
		if two != one {
			want[two] = string(content[:len(content)/2])
		} else {
			want[one] = string(content[:len(content)/2])
		}
		refusable := false
		k1, e1 := naming.Member(one)
		k2, e2 := naming.Member(two)
		refusable = one != two && k1 == k2 && e1 == e2
		if byPath {
			opt.Key = KeyPath
			flat := map[string]string{}
			for name, c := range want {
				flat[flatten(name)] = c
			}
			k1, _ = naming.Member(flatten(one))
			k2, _ = naming.Member(flatten(two))
			refusable = one != two && k1 == k2
			want = flat
		}
		store := memstore.New()
		_, err = Pack(t.Context(), []string{dir}, store, "", opt)
		if (err != nil) != refusable {
			t.Fatalf("got %v, want refused: %v", err, refusable)
		}
		if err != nil {
			return
		}
		got := members(t, store)
		if len(got) != len(want) {
			t.Fatalf("got %d members, want %d", len(got), len(want))
		}
		for _, m := range got {
			if want[m.Name] != m.Content {
				t.Errorf("%q: got %d bytes, want %d", m.Name, len(m.Content), len(want[m.Name]))
			}
		}
	})
}
