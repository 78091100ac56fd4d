package provenance

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestDigest_ChangesWithTheSourcesAlone(t *testing.T) {
	tree := func(change string) fstest.MapFS {
		files := fstest.MapFS{}
		for _, name := range []string{"a/a.go", "a/a_test.go", "a/testdata/x.go", "a/testing/y.go", "a/notes.md", "b/b.py", "c/c.go"} {
			files[name] = &fstest.MapFile{Data: []byte(name)}
		}
		if change != "" {
			files[change] = &fstest.MapFile{Data: []byte("changed")}
		}
		return files
	}
	digest := func(change string) string {
		d, err := Digest(tree(change), []string{"a", "b/b.py"})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for change, want := range map[string]bool{
		"a/a.go": true, "a/new.go": true, "b/b.py": true,
		"a/a_test.go": false, "a/testdata/x.go": false, "a/testing/y.go": false, "a/notes.md": false, "b/other.py": false, "c/c.go": false,
	} {
		if got := digest(change) != digest(""); got != want {
			t.Errorf("%s changed: got another digest %v, want %v", change, got, want)
		}
	}
	if _, err := Digest(tree(""), []string{"gone"}); err == nil {
		t.Error("sources that do not exist: got no error")
	}
}

func TestMeasurement_IsOlderThanItsSources(t *testing.T) {
	root := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "a.go"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("package a")
	m := Measurement{Sources: []string{"a.go"}}
	older := func() bool {
		old, err := m.Older(root)
		if err != nil {
			t.Fatal(err)
		}
		return old
	}
	if !older() {
		t.Error("without a digest: got current, want older")
	}
	var err error
	if m.Digest, err = Digest(os.DirFS(root), m.Sources); err != nil {
		t.Fatal(err)
	}
	if older() {
		t.Error("as measured: got older, want current")
	}
	if write("package b"); !older() {
		t.Error("changed since: got current, want older")
	}
}

func TestExplain_NeedsAProfileOfTheSameRun(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "cpu.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := Measurement{Commit: "abc"}
	const not = "Not investigated."
	for _, c := range []struct {
		note *Note
		want string
	}{
		{nil, not},
		{&Note{Commit: "other", Profile: "cpu.txt", Text: "Slow."}, not},
		{&Note{Commit: "abc", Text: "Slow."}, not},
		{&Note{Commit: "abc", Profile: "gone.txt", Text: "Slow."}, not},
		{&Note{Commit: "abc", Profile: "cpu.txt", Text: "Slow."}, "Slow. (Profile: `cpu.txt`.)"},
	} {
		if got := m.Explain(root, c.note); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.note, got, c.want)
		}
	}
}

func TestRun_RecordsWhereItTookPlace(t *testing.T) {
	run, err := Begin("bench -goals 9")
	if err != nil {
		t.Fatal(err)
	}
	m, err := run.Of(t.Context(), []string{"shuffle"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Commit == "" || m.Date == "" || m.Command != "bench -goals 9" || m.Machine.Cores < 1 || m.Machine.Go == "" || len(m.Digest) != 64 {
		t.Errorf("got %+v, want all of it", m)
	}
}
