package pack

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files in random order to a new directory and returns the directory's path.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	leaks.Check(t)
	dir := t.TempDir()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range names {
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile(name, []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// photos returns a small dataset whose samples have two members each.
func photos(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("class%d/img%04d.jpg", i%7, i)] = strings.Repeat(fmt.Sprintf("pixel %d ", i), 50+i*37%400)
		files[fmt.Sprintf("class%d/img%04d.cls", i%7, i)] = fmt.Sprint(i % 7)
	}
	return files
}

func mustPack(t *testing.T, store objstore.Store, opt Options, sources ...string) Report {
	t.Helper()
	r, err := Pack(t.Context(), sources, store, "out", opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shards returns the stored shards by key.
func shards(store *memstore.Store) map[string][]byte {
	all := map[string][]byte{}
	for _, key := range store.Keys() {
		if strings.HasSuffix(key, ".tar") {
			all[key], _ = store.Bytes(key)
		}
	}
	return all
}

// same compares byte by byte, because cmp.Diff would take seconds.
func same(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

type member struct{ Name, Content string }

// members reads all shards back in order with archive/tar.
func members(t *testing.T, store *memstore.Store) []member {
	t.Helper()
	var all []member
	for _, key := range store.Keys() {
		if !strings.HasSuffix(key, ".tar") {
			continue
		}
		data, _ := store.Bytes(key)
		if len(data)%block != 0 || !bytes.Equal(data[len(data)-trailer:], make([]byte, trailer)) {
			t.Errorf("%s: %d bytes do not end in two blocks of zeros", key, len(data))
		}
		all = append(all, readTar(t, data)...)
	}
	return all
}

func readTar(t *testing.T, data []byte) []member {
	t.Helper()
	var all []member
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
			t.Errorf("%s: header is not canonical: %+v", h.Name, h)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, member{h.Name, string(content)})
	}
}

func sorted(files map[string]string) []member {
	var all []member
	for name, content := range files {
		all = append(all, member{name, content})
	}
	slices.SortFunc(all, func(a, b member) int {
		x, _ := naming.Member(a.Name)
		y, _ := naming.Member(b.Name)
		if x != y {
			return strings.Compare(x, y)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

func TestSplitAndFlatten(t *testing.T) {
	for _, c := range []struct{ name, key, ext, flat string }{
		{"a.jpg", "a", "jpg", "a.jpg"},
		{"d.x/a.tar.gz", "d.x/a", "tar.gz", "d.x/a_tar.gz"},
		{"d.x/plain", "d.x/plain", "", "d.x/plain"},
		{".hidden", ".hidden", "", ".hidden"},
		{"d/.hidden.jpg", "d/.hidden.jpg", "", "d/_hidden.jpg"},
		{"a.", "a", "", "a."},
		{"a..b", "a", ".b", "a_.b"},
	} {
		key, ext := naming.Member(c.name)
		if key != c.key || ext != c.ext {
			t.Errorf("split(%q): got %q %q, want %q %q", c.name, key, ext, c.key, c.ext)
		}
		if got := flatten(c.name); got != c.flat {
			t.Errorf("flatten(%q): got %q, want %q", c.name, got, c.flat)
		}
	}
}

func TestEveryFileComesBack(t *testing.T) {
	files := photos(40)
	files["empty.txt"] = ""
	files["class0-x/img.png"] = "sorts between class0 and class0/"
	files["name with spaces\nand a newline.txt"] = "odd"
	files["übung/größe.txt"] = "not ASCII"
	files[".hidden"] = "dot first"
	files["Makefile"] = "no dot"
	files["exact.bin"] = strings.Repeat("x", block)
	files[strings.Repeat("d/", 60)+"deep.txt"] = "a prefix that USTAR can split"
	files[strings.Repeat("n", 120)+".txt"] = "a base name longer than 100"
	files[strings.Repeat("long-directory/", 30)+"deeper.txt"] = "longer than 256"
	files[strings.Repeat("0123456789abcdef/", 200)+"deepest.txt"] = "longer than 3 KiB"
	store := memstore.New()
	r := mustPack(t, store, Options{ShardSize: 64 << 10, Hidden: true}, tree(t, files))
	if diff := cmp.Diff(sorted(files), members(t, store)); diff != "" {
		t.Error(diff)
	}
	var total int64
	for key, data := range shards(store) {
		total += int64(len(data))
		if len(data) > 64<<10 {
			t.Errorf("%s: %d bytes, more than the target", key, len(data))
		}
	}
	want := Report{
		Files: len(files), Samples: len(files) - 40, Shards: len(shards(store)), Bytes: total, MultiMember: 40, Example: "class0/img0000",
		Extensions: map[string]int{"": 2, "bin": 1, "cls": 40, "jpg": 40, "png": 1, "txt": 7},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if r.Shards < 3 {
		t.Errorf("got %d shards, want two or more", r.Shards)
	}
}

func TestSameInputGivesSameBytes(t *testing.T) {
	files := photos(60)
	files["ä.txt"] = "PAX"
	var first map[string][]byte
	for i := range 6 {
		dir, store := tree(t, files), memstore.New()
		if i > 0 {
			old := time.Unix(int64(i)*1e8, 0)
			if err := os.Chtimes(filepath.Join(dir, "ä.txt"), old, old); err != nil {
				t.Fatal(err)
			}
		}
		mustPack(t, store, Options{ShardSize: 40 << 10, Parallel: 1 + i*3}, dir)
		if first == nil {
			first = shards(store)
		} else if !same(first, shards(store)) {
			t.Errorf("run %d differs", i)
		}
	}
	h := sha256.New()
	for i := range len(first) {
		h.Write(first[fmt.Sprintf("out/shard-%06d.tar", i)])
	}
	const want = "3598b9bff7bd663c014ea983188b33d5887cd46e77c2d3de1a7fdf7e046708fb"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("the bytes of a shard are a promise: got %s, want %s", got, want)
	}
}

func TestKeyPathMakesEveryFileASample(t *testing.T) {
	store := memstore.New()
	dir := tree(t, map[string]string{"a.b.jpg": "1", "a.c.jpg": "2", "d.x/y.jpg": "3"})
	r := mustPack(t, store, Options{Key: KeyPath}, dir)
	want := []member{{"a_b.jpg", "1"}, {"a_c.jpg", "2"}, {"d.x/y.jpg", "3"}}
	if diff := cmp.Diff(want, members(t, store)); diff != "" {
		t.Error(diff)
	}
	if r.Samples != 3 || r.MultiMember != 0 {
		t.Errorf("got %d samples, %d with two or more members, want 3, 0", r.Samples, r.MultiMember)
	}
}

// TestPack_ExcludesOwnFiles checks that Pack excludes the index of a directory that was indexed in
// place.
func TestPack_ExcludesOwnFiles(t *testing.T) {
	store := memstore.New()
	dir := tree(t, map[string]string{
		"a.jpg": "1", "b/.millrace/c.jpg": "2", ".millrace.jpg": "3", ".millrace/current": "x", ".millrace/index/0": "y", ".millrace-lock": "",
	})
	mustPack(t, store, Options{Hidden: true}, dir)
	want := []member{{".millrace.jpg", "3"}, {"a.jpg", "1"}, {"b/.millrace/c.jpg", "2"}}
	if diff := cmp.Diff(want, members(t, store)); diff != "" {
		t.Error(diff)
	}
}

// TestPack_ExcludesHiddenFiles checks that Pack includes hidden files only on request, and counts
// the excluded ones.
func TestPack_ExcludesHiddenFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		"0.jpg": "0", "0.cls": "5", "._0.jpg": "m", ".DS_Store": "m", ".git/config": "m", "d/Thumbs.db": "m", "d/desktop.ini": "m", "__MACOSX/d/1.jpg": "m",
	})
	store := memstore.New()
	r := mustPack(t, store, Options{}, dir)
	if diff := cmp.Diff([]member{{"0.cls", "5"}, {"0.jpg", "0"}}, members(t, store)); diff != "" || r.Hidden != 6 || r.Samples != 1 {
		t.Errorf("got %+v: %s", r, diff)
	}
	if r := mustPack(t, memstore.New(), Options{Hidden: true}, dir); r.Hidden != 0 || r.Files != 8 {
		t.Errorf("with Hidden: got %+v, want all 8 files", r)
	}
	_, err := Pack(t.Context(), []string{filepath.Join(dir, ".DS_Store")}, memstore.New(), "", Options{})
	if err == nil || !strings.Contains(err.Error(), "all 1 files in the sources are hidden: use --hidden to include them") {
		t.Errorf("only hidden files: got %v, want an error that names --hidden", err)
	}
}

func TestPack_NamesRefusedFiles(t *testing.T) {
	a := tree(t, map[string]string{"x/one.txt": "1"})
	b := tree(t, map[string]string{"x/one.txt": "2"})
	special := tree(t, map[string]string{"fine.txt": ""})
	if err := os.Symlink("fine.txt", filepath.Join(special, "link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(special, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	latin := tree(t, map[string]string{"gr\xf6\xdfe.txt": ""})
	deep := strings.Repeat("0123456789abcdef/", 240) + "0123456789abcdefg" // 4,097 bytes
	huge, frames := tree(t, map[string]string{"all.mp4": ""}), tree(t, map[string]string{"f.0.png": "", "f.1.png": ""})
	for name, size := range map[string]int64{huge + "/all.mp4": format.MaxSample - block + 1, frames + "/f.0.png": 1 << 29, frames + "/f.1.png": 1 << 29} {
		if err := os.Truncate(name, size); err != nil { // a sparse file, whose content is never read
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		sources []string
		opt     Options
		culprit []string
	}{
		{"duplicate member", []string{a, b}, Options{}, []string{a + "/x/one.txt", b + "/x/one.txt"}},
		{"duplicate key", []string{tree(t, map[string]string{"f.c": "", "f.h": ""})}, Options{Key: KeyPath}, []string{"f.c", "f.h"}},
		{"duplicate after flattening", []string{tree(t, map[string]string{"f.x.c": "", "f_x.c": ""})}, Options{Key: KeyPath}, []string{"f.x.c", "f_x.c"}},
		{"duplicate extension", []string{tree(t, map[string]string{"f": "", "f.": ""})}, Options{}, []string{"/f", "/f."}},
		{"special files", []string{special}, Options{}, []string{"link.txt", "symbolic link", "pipe"}},
		{"a link as source", []string{filepath.Join(special, "link.txt")}, Options{}, []string{"link.txt"}},
		{"not UTF-8", []string{latin}, Options{}, []string{`gr\xf6\xdfe.txt`}},
		{"longer than a sample", []string{huge}, Options{}, []string{huge + "/all.mp4", "sample of 1073742336 bytes"}},
		{"together longer than a sample", []string{frames}, Options{}, []string{frames + "/f.0.png", `"f"`, "2 in total", "--sample-key path"}},
		{"a name too long", []string{tree(t, map[string]string{deep: ""})}, Options{}, []string{"0123456789abcdef/", "4097 bytes"}},
		{"no such source", []string{filepath.Join(a, "none")}, Options{}, []string{"none"}},
		{"empty directory", []string{t.TempDir()}, Options{}, []string{"no files"}},
		{"no source", nil, Options{}, []string{"no source"}},
		{"bad key", []string{a}, Options{Key: "base"}, []string{`"base"`}},
		{"bad size", []string{a}, Options{ShardSize: -1}, []string{"-1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := memstore.New()
			_, err := Pack(t.Context(), c.sources, store, "out/", c.opt)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, culprit := range c.culprit {
				if !strings.Contains(err.Error(), culprit) {
					t.Errorf("got %q, want it to name %q", err, culprit)
				}
			}
			if keys := store.Keys(); len(keys) > 0 {
				t.Errorf("got %v stored, want nothing", keys)
			}
		})
	}
}

func TestSkipSpecial(t *testing.T) {
	dir := tree(t, map[string]string{"fine.txt": "ok"})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // the path of a socket must be short
	l, err := net.Listen("unix", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	store := memstore.New()
	r := mustPack(t, store, Options{SkipSpecial: true}, dir)
	if diff := cmp.Diff([]member{{"fine.txt", "ok"}}, members(t, store)); diff != "" {
		t.Error(diff)
	}
	want := []string{fmt.Sprintf("%q (symbolic link)", dir+"/link.txt"), fmt.Sprintf("%q (socket)", dir+"/s")}
	if diff := cmp.Diff(want, r.Skipped); diff != "" {
		t.Error(diff)
	}
}

func TestFilesAsSources(t *testing.T) {
	dir := tree(t, map[string]string{"in/a.txt": "1", "b.txt": "2", "c/d.txt": "3"})
	store := memstore.New()
	mustPack(t, store, Options{}, dir+"/in/a.txt", dir+"/b.txt", dir+"/c")
	want := []member{{"a.txt", "1"}, {"b.txt", "2"}, {"d.txt", "3"}}
	if diff := cmp.Diff(want, members(t, store)); diff != "" {
		t.Error(diff)
	}
}

// TestFileChangesWhileRead changes a file after the walk, during the first Put of the run.
func TestFileChangesWhileRead(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"longer":    func(p string) error { return os.WriteFile(p, []byte("123456789"), 0o600) },
		"shorter":   func(p string) error { return os.Truncate(p, 1) },
		"rewritten": func(p string) error { return os.Chtimes(p, time.Time{}, time.Now().Add(time.Hour)) },
		"replaced": func(p string) error {
			return errors.Join(os.Rename(p, p+".old"), os.WriteFile(p, []byte("12345"), 0o600))
		},
		"a pipe now": func(p string) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600)) },
		"leads out": func(p string) error {
			return errors.Join(os.Remove(p), os.Symlink("/etc/hostname", p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"a.txt": "12345"})
			var once sync.Once
			store := &hooked{Store: memstore.New(), before: func(string) (err error) {
				once.Do(func() { err = change(filepath.Join(dir, "a.txt")) })
				return err
			}}
			_, err := Pack(t.Context(), []string{dir}, store, "out", Options{})
			if err == nil || !strings.Contains(err.Error(), "a.txt") {
				t.Errorf("got %v, want an error that names a.txt", err)
			}
			if name != "leads out" && !errors.Is(err, errChanged) {
				t.Errorf("got %v, want %v", err, errChanged)
			}
			if got := len(shards(store.Store)); got != 0 {
				t.Errorf("got %d shards, want none", got)
			}
		})
	}
}

func TestLargeShardsGoThroughATemporaryFile(t *testing.T) {
	temp := t.TempDir()
	files := map[string]string{}
	for i := range 9 {
		files[fmt.Sprintf("f%d.bin", i)] = strings.Repeat(fmt.Sprintf("%08d", i), 1<<17)
	}
	store := memstore.New()
	r := mustPack(t, store, Options{ShardSize: 6 << 20, TempDir: temp}, tree(t, files))
	if diff := cmp.Diff(sorted(files), members(t, store)); diff != "" {
		t.Error("contents differ")
	}
	if r.Shards != 2 {
		t.Errorf("got %d shards, want 2", r.Shards)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("got %v left over", left)
	}
}

func TestProgressReachesItsTotal(t *testing.T) {
	var last chunkindex.Progress
	store, dir := memstore.New(), tree(t, photos(60))
	opt := Options{ShardSize: 40 << 10, Parallel: 4, Progress: func(p chunkindex.Progress) {
		if p.Done < last.Done || p.Shards < last.Shards {
			t.Errorf("got %+v after %+v", p, last)
		}
		last = p
	}}
	r := mustPack(t, store, opt, dir)
	want := chunkindex.Progress{Done: r.Bytes, Total: r.Bytes, Shards: r.Shards, Of: r.Shards, Samples: uint64(r.Samples)}
	if diff := cmp.Diff(want, last); diff != "" {
		t.Error(diff)
	}
	last = chunkindex.Progress{}
	mustPack(t, store, opt, dir)
	want.Kept = want.Done
	if diff := cmp.Diff(want, last); diff != "" {
		t.Errorf("again: %s", diff)
	}
}

// TestOtherReaders reads a shard with GNU tar and with Python's tarfile.
func TestOtherReaders(t *testing.T) {
	files := photos(10)
	files["ünï/"+strings.Repeat("é", 90)+".txt"] = "PAX"
	files[strings.Repeat("d/", 70)+"deep.txt"] = "USTAR with a prefix"
	files["empty.txt"] = ""
	store := memstore.New()
	mustPack(t, store, Options{}, tree(t, files))
	data, _ := store.Bytes("out/shard-000000.tar")
	shard := filepath.Join(t.TempDir(), "s.tar")
	if err := os.WriteFile(shard, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, m := range sorted(files) {
		fmt.Fprintf(&want, "%s %x\n", m.Name, sha256.Sum256([]byte(m.Content)))
	}
	const script = `import hashlib, sys, tarfile
for m in tarfile.open(sys.argv[1], "r:"):
    assert m.isreg() and m.mtime == 0 and m.uid == 0 and m.mode == 0o644, m
    sys.stdout.buffer.write(("%s %s\n" % (m.name, hashlib.sha256(tarfile.open(sys.argv[1]).extractfile(m.name).read()).hexdigest())).encode())`
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return string(out)
	}
	if diff := cmp.Diff(want.String(), run("python3", "-c", script, shard)); diff != "" {
		t.Errorf("tarfile: %s", diff)
	}
	into := t.TempDir()
	run("tar", "-xf", shard, "-C", into)
	for name, content := range files {
		got, err := os.ReadFile(filepath.Join(into, name))
		if err != nil || string(got) != content {
			t.Errorf("tar: %s: got %d bytes and %v, want %d", name, len(got), err, len(content))
		}
	}
}

// hooked is a store that calls the function before at the start of every Put.
type hooked struct {
	*memstore.Store
	before func(key string) error
}

func (h *hooked) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	if err := h.before(key); err != nil {
		return objstore.Object{}, err
	}
	return h.Store.Put(ctx, key, body, size, cond)
}
