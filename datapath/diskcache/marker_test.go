package diskcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestForeignDirectoriesAreRefused(t *testing.T) {
	marked := func(version int, dataset string) string {
		return fmt.Sprintf(`{"format":"millrace disk cache","version":%d,"datasets":[%q]}`, version, dataset)
	}
	for name, c := range map[string]struct {
		files map[string]string
		size  int64
		want  []string // words of the error; none: the cache opens
	}{
		"empty":                    {},
		"a mounted disk":           {files: map[string]string{"lost+found": ""}},
		"killed before mark":       {files: map[string]string{lockFile: "", markerTemp: "{"}},
		"ours":                     {files: map[string]string{markerFile: marked(1, fixtureDataset)}},
		"ours, without datasets":   {files: map[string]string{markerFile: `{"format":"millrace disk cache","version":1}`}},
		"another program's chunks": {files: map[string]string{"chunks": "x"}, want: []string{"nor empty", "chunks"}},
		"other files":              {files: map[string]string{"thesis.tex": "x"}, want: []string{"nor empty", "thesis.tex", "empty directory"}},
		"another program's":        {files: map[string]string{markerFile: `{"format":"other","version":1}`}, want: []string{"was not written by this program"}},
		"no JSON":                  {files: map[string]string{markerFile: "x"}, want: []string{"was not written by this program"}},
		"no version":               {files: map[string]string{markerFile: marked(0, fixtureDataset)}, want: []string{"was not written by this program"}},
		"newer":                    {files: map[string]string{markerFile: marked(2, fixtureDataset)}, want: []string{"newer", "version 2"}},
		"other dataset":            {files: map[string]string{markerFile: marked(1, "s3://b/mails"), chunkDir + "/0f/x": ""}, want: []string{"s3://b/mails", fixtureDataset, "another directory"}},
		"larger than disk":         {size: 1 << 60, want: []string{"more than", "file system"}},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, dir, file, text)
		}
		size := c.size
		if size == 0 {
			size = 1 << 20
		}
		cache, err := Open(Config{Dir: dir, MaxBytes: size, Datasets: []string{fixtureDataset}})
		if err == nil {
			cache.Close()
		}
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: got %v, want an error: %v", name, err, c.want != nil)
			continue
		}
		for _, word := range c.want {
			if !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: got %q, want one that names %q and the directory", name, err, word)
			}
		}
		entries, _ := os.ReadDir(dir)
		if c.files["thesis.tex"] != "" && len(entries) != 1 {
			t.Errorf("%s: got %d files left in it, want its own alone", name, len(entries))
		}
	}
}

func TestMarkerRemembersDatasets(t *testing.T) {
	dir := t.TempDir()
	for i, sets := range [][]string{{"a"}, {"b", "a", "b"}, {"b"}, {"a", "c"}} {
		c := open(t, Config{Dir: dir, Datasets: sets})
		mustWrite(t, c, i, 100)
		c.Close()
	}
	text, err := os.ReadFile(filepath.Join(dir, markerFile))
	if got := strings.Join(strings.Fields(string(text)), ""); err != nil || got != `{"format":"millracediskcache","version":1,"datasets":["a","c","b"]}` {
		t.Errorf("got %s and %v, want a, c and b", got, err)
	}
	if _, err := Open(Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{"d"}}); err == nil {
		t.Error("another dataset: got no error, want one")
	}
}

func TestOneProcessPerDirectory(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	second, err := Open(Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{fixtureDataset}})
	if err == nil {
		second.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "another process uses the directory: give each gateway its own directory") {
		t.Errorf("second: got %v, want an error that names the cure", err)
	}
	c.Close()
	open(t, Config{Dir: dir}).Close() // the lock has been released
}

func TestDirectoryThatIsAFile(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file", "x")
	if _, err := Open(Config{Dir: filepath.Join(dir, "file"), MaxBytes: 1 << 20}); err == nil {
		t.Error("got no error, want one")
	}
}

// A start with a mistyped dataset marks the directory and writes nothing. The next start can use
// it.
func TestEmptyCacheIsAnybodys(t *testing.T) {
	dir := t.TempDir()
	open(t, Config{Dir: dir, Datasets: []string{"s3://bucket/phtos"}}).Close()
	c := open(t, Config{Dir: dir})
	mustWrite(t, c, 1, 100)
	c.Close()
	other := Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{"s3://bucket/mails"}}
	if err := Check(other); err == nil || strings.Contains(err.Error(), "phtos") {
		t.Errorf("check: got %v, want that it holds chunks of another dataset, which never had any", err)
	}
	if c, err := Open(other); err == nil {
		c.Close()
		t.Error("open: got no error, want one")
	}
}

// TestCheckFindsADirectoryThatIsNotToBeWritten checks that Check reports a directory without write
// permission. Missing write permission does not stop root.
func TestCheckFindsADirectoryThatIsNotToBeWritten(t *testing.T) {
	dir := t.TempDir()
	open(t, Config{Dir: dir}).Close()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	refused := os.Geteuid() != 0
	for _, d := range []string{dir, filepath.Join(dir, "a", "b")} {
		err := Check(Config{Dir: d, MaxBytes: 1 << 20, Datasets: []string{fixtureDataset}})
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "write "+dir+": permission denied") {
			t.Errorf("%s: got %v, want it refused: %v", d, err, refused)
		}
	}
}

// TestDatasetsThatComeLater checks that, after a restart, datasets that were added later are
// recognized as the directory's.
func TestDatasetsThatComeLater(t *testing.T) {
	dir := t.TempDir()
	c, err := Open(Config{Dir: dir, MaxBytes: 1 << 20}) // opened for a quota, before its dataset exists
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Hold([]string{fixtureDataset}); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, c, 1, 100)
	c.Close()
	if err := Check(Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{"s3://bucket/mails"}}); err == nil || !strings.Contains(err.Error(), fixtureDataset) {
		t.Errorf("got %v, want the directory of another dataset refused", err)
	}
	for _, datasets := range [][]string{{fixtureDataset}, nil} {
		if err := Check(Config{Dir: dir, MaxBytes: 1 << 20, Datasets: datasets}); err != nil {
			t.Errorf("%v: %v", datasets, err)
		}
	}
}

// TestMarkerThatCannotBeRead checks that an unreadable marker is not mistaken for the marker of
// another program.
func TestMarkerThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, markerFile), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Check(Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{fixtureDataset}})
	if !errors.Is(err, syscall.EISDIR) {
		t.Errorf("got %v, want the error of the read", err)
	}
}

// TestMarker_RewriteFails checks that a gateway starts even if the marker cannot be rewritten:
// other programs may have filled the disk.
func TestMarker_RewriteFails(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	mustWrite(t, c, 1, 100)
	c.Close()
	if err := os.MkdirAll(filepath.Join(dir, markerTemp, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	c = open(t, Config{Dir: dir, Datasets: []string{fixtureDataset, "s3://bucket/mails"}})
	defer c.Close()
	wantThere(t, c, 1, 100, true)
}

// TestDirectoryThatCannotBeListed checks that the error names a solution, for a disk fault and for
// a link out of the directory.
func TestDirectoryThatCannotBeListed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	open(t, Config{Dir: dir}).Close()
	if err := os.Remove(filepath.Join(dir, chunkDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, chunkDir)); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Dir: dir, MaxBytes: 1 << 20, Datasets: []string{fixtureDataset}})
	if err == nil || !strings.Contains(err.Error(), "escapes") || !strings.Contains(err.Error(), "use another directory") {
		t.Errorf("got %v, want an error that names the cure", err)
	}
}
