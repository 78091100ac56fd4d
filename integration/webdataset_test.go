package integration_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestTarAsWebDatasetReadsIt has WebDataset write shards, compresses them in several ways, and
// rewrites them with GNU tar and bsdtar. A gateway serves them in place. WebDataset then reads the
// batches of an epoch: every sample appears once, unchanged.
func TestTarAsWebDatasetReadsIt(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "wds.py", "write", dir)["plain"]
	store := harness.Open(t, "minio")
	names := []string{"plain", "tar.gz", "tgz", "members", "zst", "tools"}
	g := serveAll(t, store, store.Objects(t), dir, names...)
	var readable []string
	for _, name := range names {
		files := map[string][]byte{}
		for i, b := range epochOf(t, g, name, 2, 8) {
			files[fmt.Sprintf("batch-%05d.tar", i)] = b.body
		}
		readable = append(readable, saveAs(t, name, files))
	}
	found := library(t, "wds.py", append([]string{"read"}, readable...)...)
	for _, name := range names {
		same(t, name, want, found[name])
	}
}

// TestSpecialCasesAsWebDatasetReadsThem writes shards with members that WebDataset's reader treats
// specially. Millrace reads the same samples, or refuses the shard by name, or reads additional
// samples that WebDataset skips.
func TestSpecialCasesAsWebDatasetReadsThem(t *testing.T) {
	const same, more, fewer = "", "more", "fewer"
	cases := []struct {
		names []string
		want  string // same, more, fewer, or the text of the refusal
	}{
		{[]string{"a.jpg", "a.cls", "b.jpg"}, same},
		{[]string{"d/a.jpg", "d/a.cls", "e/a.jpg"}, same},
		{[]string{"d.x/a.jpg", "d.x/a.cls", "d.x/e.y/b.jpg"}, same},
		{[]string{"a.seg.png", "a.png", "a.tar.gz"}, same},
		{[]string{"a.JPG", "a.Cls"}, same},
		{[]string{"a.", "b.jpg"}, same},
		{[]string{"d/", "d/a.jpg", "e/", "e/a.jpg"}, same},
		{[]string{"grün.jpg", "grün.cls", "日本.png"}, same},
		{[]string{"a.jpg", "README"}, more},
		{[]string{"._0.jpg", "0.jpg", "._0.cls", "0.cls", "._1.jpg", "1.jpg"}, same},
		{[]string{"d/.hidden", "a.jpg"}, fewer},
		{[]string{"a.jpg", "b.jpg", "a.cls"}, "are not adjacent"},
		{[]string{"a.jpg", "README", "a.cls"}, "are not adjacent"},
		{[]string{"a.jpg", "d/", "a.cls"}, "are not adjacent"},
		{[]string{"a.jpg", "a.JPG"}, "differ only in case"},
		{[]string{"a.jpg", "a.jpg"}, "two members of one sample have this name"},
		{[]string{"a.__key__"}, "is reserved"},
		{[]string{"a.__url__"}, "is reserved"},
		{[]string{"__key__", "a.jpg"}, "skips members"},
		{[]string{"__url__/a.jpg"}, "skips members"},
		{[]string{"__meta__/notes.txt", "a.jpg"}, "skips members"},
	}
	var lists [][]string
	for _, c := range cases {
		lists = append(lists, c.names)
	}
	for i, read := range readByWebDataset(t, lists) {
		c := cases[i]
		got, err := readByMillrace(t, c.names)
		switch c.want {
		case same:
			if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", read) {
				t.Errorf("%q: got %q, %v, want %q as WebDataset has them", c.names, got, err, read)
			}
		case more:
			if err != nil || len(got) <= len(read) {
				t.Errorf("%q: got %v, %v, want more than %v", c.names, got, err, read)
			}
		case fewer: // WebDataset uses the directory of a hidden member as its key
			if err != nil || len(got) != len(read)-1 {
				t.Errorf("%q: got %v, %v, want one less than %v", c.names, got, err, read)
			}
		default:
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, of which WebDataset makes %v: got %v, %v, want %q", c.names, read, got, err, c.want)
			}
		}
	}
}

// readByWebDataset returns the samples that WebDataset reads from shards of these members: the key
// and extensions of each, or an error.
func readByWebDataset(t *testing.T, lists [][]string) [][][]string {
	t.Helper()
	in, err := json.Marshal(lists)
	if err != nil {
		t.Fatal(err)
	}
	path, env := harness.Python(t)
	cmd := exec.CommandContext(t.Context(), path, "-W", "ignore", filepath.Join("python", "wds.py"), "group")
	cmd.Env, cmd.Stdin = env, bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(out, &raw); err != nil || len(raw) != len(lists) {
		t.Fatalf("got %s, %v", out, err)
	}
	all := make([][][]string, len(raw))
	for i, r := range raw {
		if json.Unmarshal(r, &all[i]) != nil {
			all[i] = [][]string{{"refused", string(r)}}
		}
	}
	return all
}

// readByMillrace indexes a shard of these members and returns its samples in the same form.
// Extensions are in lower case, as in WebDataset.
func readByMillrace(t *testing.T, names []string) ([][]string, error) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, n := range names {
		h := &tar.Header{Name: n, Mode: 0o644, Size: 1}
		if strings.HasSuffix(n, "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")[:h.Size]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	store.Set("shard.tar", b.Bytes())
	if _, err := build.Run(t.Context(), store, "", build.Options{}); err != nil {
		return nil, err
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var all [][]string
	for c := range x.Chunks() {
		parts, err := x.Parts(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int(x.Chunk(c).Samples) {
			key, err := x.Key(t.Context(), x.Chunk(c).First+uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			sample := []string{key}
			for _, p := range parts.Append(nil, i) {
				sample = append(sample, strings.ToLower(p.Ext))
			}
			all = append(all, sample)
		}
	}
	return all, nil
}
