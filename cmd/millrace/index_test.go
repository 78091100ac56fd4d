package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write writes files to a new directory and returns the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestIndex_ReportsFormatAndIgnoredObjects: index prints the format and the number of ignored
// objects. It recommends pack for many small files.
func TestIndex_ReportsFormatAndIgnoredObjects(t *testing.T) {
	lines := write(t, map[string]string{"a.JSONl": "{\"a\":1}\n{\"a\":2}\n", "README": "lines"})
	o := ok(t, "index", lines)
	if !strings.Contains(o.stdout, "2 samples in 1 chunk of 1 jsonl shard") || !strings.Contains(o.stdout, "ignored 1 object, such as README: no shards") || strings.Contains(o.stderr, "pack") {
		t.Errorf("got\n%s\n%s", o.stdout, o.stderr)
	}
	photos := write(t, map[string]string{"d/a.jpg": "a", "d/b.jpg": "b", "d/c.txt": ""})
	o = millrace(t, nil, "index", photos)
	if o.code == exitOK || !strings.Contains(o.stderr, "d/c.txt") || !strings.Contains(o.stderr, "--match") {
		t.Errorf("an empty file: got exit code %d, %s", o.code, o.stderr)
	}
	o = ok(t, "index", photos, "--match", "*.jpg", "--json")
	var rep struct {
		Format  string `json:"format"`
		Samples int    `json:"samples"`
	}
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || rep.Format != "files" || rep.Samples != 2 || !strings.Contains(o.stderr, "'millrace pack'") {
		t.Errorf("got %+v, %v, %s", rep, err, o.stderr)
	}
	for _, command := range []string{"verify", "plan", "gc"} {
		if o := millrace(t, nil, command, photos); o.code != exitOK {
			t.Errorf("%s: got exit code %d, %s", command, o.code, o.stderr)
		}
	}
}

// TestIndex_TakesAPatternInTheAddress: the pattern is that of --match, unless a file has the name.
func TestIndex_TakesAPatternInTheAddress(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x-000.jsonl", "x-001.jsonl", "x-002.jsonl", "y.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]string{"/x-{000..001}.jsonl": "2 samples", "/x-*.jsonl": "3 samples", "/*": "4 samples", "": "4 samples"} {
		if o := ok(t, "index", dir+pattern); !strings.Contains(o.stdout, want) {
			t.Errorf("%s: got %s, want %s", pattern, o.stdout, want)
		}
	}
	if o := millrace(t, nil, "index", dir+"/x-*.jsonl", "--match", "y*"); o.code != exitUsage || !strings.Contains(o.stderr, "an address cannot contain a pattern") {
		t.Errorf("with --match: got exit code %d, %s", o.code, o.stderr)
	}
	if o := millrace(t, nil, "info", dir+"/x-*.jsonl"); o.code != exitUsage {
		t.Errorf("info: got exit code %d", o.code)
	}
}

// TestIndex_SkipsHiddenObjects: index counts hidden objects, and warns if the earlier index
// contained them. --hidden includes them.
func TestIndex_SkipsHiddenObjects(t *testing.T) {
	dir := write(t, map[string]string{"a.jpg": "a", "d/b.jpg": "b", ".nv-meta/x": "x", "d/Thumbs.db": "y"})
	o := ok(t, "index", dir, "--hidden", "--format", "files")
	if !strings.Contains(o.stdout, "4 samples") || strings.Contains(o.stdout, "hidden") {
		t.Errorf("taken: got %s", o.stdout)
	}
	o = ok(t, "index", dir)
	if !strings.Contains(o.stdout, "2 samples") || !strings.Contains(o.stdout, "left out 2 hidden objects, such as .nv-meta/x:") || !strings.Contains(o.stderr, "left out 2 objects of the previous index, such as d/Thumbs.db, because of") {
		t.Errorf("left out: got %s\n%s", o.stdout, o.stderr)
	}
	o = ok(t, "index", dir, "--json")
	if !strings.Contains(o.stdout, `"hidden": 2`) || !strings.Contains(o.stdout, `"had_hidden": 0`) || strings.Contains(o.stderr, "--hidden") {
		t.Errorf("again: got %s\n%s, want no warning", o.stdout, o.stderr)
	}
}

func TestIndex_CountsUnmatchedObjects(t *testing.T) {
	dir := write(t, map[string]string{"a.jpg": "a", "b.png": "b", "c.jpeg": "c", ".DS_Store": "x"})
	if o := ok(t, "index", dir, "--format", "files", "--match", "*.jpg"); !strings.Contains(o.stderr, "left out 2 objects that --match does not select") {
		t.Errorf("got %s", o.stderr)
	}
	if o := ok(t, "index", dir, "--format", "files", "--match", "!"+filepath.Base(dir)+"/a.jpg"); !strings.Contains(o.stderr, "excludes nothing: a pattern with a slash applies to the key below the address") {
		t.Errorf("a pattern with the directory: got %s", o.stderr)
	}
	if o := ok(t, "index", dir, "--format", "files", "--match", "!a.jpg"); strings.Contains(o.stderr, "excludes nothing") {
		t.Errorf("a pattern that excludes an object: got %s", o.stderr)
	}
}

// TestPackAndIndex_CountSkippedObjects: pack and index report the number of skipped objects of each
// kind, as text and as JSON.
func TestPackAndIndex_CountSkippedObjects(t *testing.T) {
	photos := write(t, map[string]string{"0.jpg": "0", "0.cls": "5", "._0.jpg": "m", ".git/config": "m", "d/Thumbs.db": "m"})
	shards := t.TempDir()
	if o := ok(t, "pack", photos, shards); !strings.Contains(o.stdout, "1 sample in") || !strings.Contains(o.stdout, "left out 3 hidden files, such as ._0.jpg: --hidden") {
		t.Errorf("pack: got %s", o.stdout)
	}
	all := t.TempDir()
	if o := ok(t, "pack", photos, all, "--hidden", "--json"); !strings.Contains(o.stdout, `"hidden_members": 0`) || !strings.Contains(o.stdout, `"hidden": 0`) || !strings.Contains(o.stdout, `"samples": 4`) {
		t.Errorf("pack --hidden: got %s, want every file as a member, and indexed", o.stdout)
	}
	if err := os.WriteFile(filepath.Join(all, "failed.tar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	o := ok(t, "index", all)
	if !strings.Contains(o.stdout, "1 sample in") || !strings.Contains(o.stdout, "left out 3 hidden members of the shards that were read: --hidden") || !strings.Contains(o.stdout, "1 shard has no bytes") {
		t.Errorf("index: got %s", o.stdout)
	}
}

// TestIndex_FlagsReachFormat: flags describe a format that the bytes alone do not show.
func TestIndex_FlagsReachFormat(t *testing.T) {
	raw := write(t, map[string]string{"numbers.bin": strings.Repeat("0123456789", 6)})
	if o := millrace(t, nil, "index", raw); o.code == exitOK || !strings.Contains(o.stderr, "--sequence-length") || !strings.Contains(o.stderr, "--record-size") || !strings.Contains(o.stderr, "--format files") {
		t.Errorf("without flags: got %s, want them named", o.stderr)
	}
	if o := ok(t, "index", raw, "--format", "files"); strings.Contains(o.stderr, "--sequence-length") {
		t.Errorf("loose objects that are asked for: got %s", o.stderr)
	}
	if o := ok(t, "index", raw, "--format", "records", "--record-size", "20", "--dtype", "<u2"); !strings.Contains(o.stdout, "3 samples") {
		t.Errorf("records: got %s", o.stdout)
	}
	if o := ok(t, "index", raw, "--format", "tokens", "--sequence-length", "5", "--dtype", "<u2"); !strings.Contains(o.stdout, "5 samples") || !strings.Contains(o.stdout, "left out 4 tokens") {
		t.Errorf("tokens: got %s", o.stdout)
	}
	for _, args := range [][]string{
		{"--format", "xml"}, {"--match", "["}, {"--sequence-length", "2147483649"}, {"--sequence-length", "x"}, {"--record-size", "big"}, {"--fields", ""}, {"--fields", " , "},
	} {
		if o := millrace(t, nil, append([]string{"index", raw}, args...)...); o.code != exitUsage || !strings.Contains(o.stderr, args[0]) {
			t.Errorf("%q: got exit code %d, %s, want %d", args, o.code, o.stderr, exitUsage)
		}
	}
}

// TestIndex_AsksForHeader: index requires --header if the first record contains a number. Otherwise
// it treats the record as a header and prints it.
func TestIndex_AsksForHeader(t *testing.T) {
	numbers := write(t, map[string]string{"iris.csv": "5.1,3.5,setosa\n4.9,3.0,setosa\n"})
	if o := millrace(t, nil, "index", numbers); o.code == exitOK || !strings.Contains(o.stderr, "5.1,3.5,setosa") || !strings.Contains(o.stderr, "--header absent") {
		t.Errorf("numbers: got exit code %d, %s", o.code, o.stderr)
	}
	if o := ok(t, "index", numbers, "--header", "absent"); !strings.Contains(o.stdout, "2 samples") || strings.Contains(o.stdout, "header") {
		t.Errorf("absent: got %s", o.stdout)
	}
	if o := ok(t, "index", numbers, "--header", "present"); !strings.Contains(o.stdout, "1 sample ") || strings.Contains(o.stdout, "--header") {
		t.Errorf("present: got %s", o.stdout)
	}
	words := write(t, map[string]string{"a.tsv": "Go.\tVa !\nRun!\tCours !\n"})
	if o := ok(t, "index", words); !strings.Contains(o.stdout, "1 sample ") || !strings.Contains(o.stdout, `treated the first record of each shard, "Go.\tVa !", as a header: if it is a sample, index again with --header absent`) {
		t.Errorf("words: got %s", o.stdout)
	}
	if o := millrace(t, nil, "index", write(t, map[string]string{"a.jsonl": "{}\n"}), "--header", "absent"); o.code == exitOK || !strings.Contains(o.stderr, "--header does not apply to jsonl shards") {
		t.Errorf("lines: got exit code %d, %s", o.code, o.stderr)
	}
	if o := millrace(t, nil, "index", words, "--header", "no"); o.code != exitUsage {
		t.Errorf("got exit code %d, %s", o.code, o.stderr)
	}
}

// TestIndex_SelectsColumns: index reads only the selected columns. The error for a missing column
// lists the existing ones.
func TestIndex_SelectsColumns(t *testing.T) {
	file, err := os.ReadFile("../../chunkindex/codec/rowgroup/testdata/nested.parquet")
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{"a.parquet": string(file)})
	ok(t, "index", dir)
	if o := ok(t, "index", dir, "--name", "captions", "--fields", "captions", "--fields", "image.path, counts"); !strings.Contains(o.stdout, "24 samples") {
		t.Errorf("got %s", o.stdout)
	}
	if o := ok(t, "verify", dir+"#captions"); !strings.Contains(o.stdout, "0 bad") {
		t.Errorf("verify: got %s", o.stdout)
	}
	if o := millrace(t, nil, "index", dir, "--fields", "caption"); o.code == exitOK || !strings.Contains(o.stderr, `no column has the name "caption": the columns are image.bytes, image.path, embedding`) {
		t.Errorf("a column that is not there: got exit code %d, %s", o.code, o.stderr)
	}
	raw := write(t, map[string]string{"a.jsonl": "{}\n"})
	if o := millrace(t, nil, "index", raw, "--fields", "json"); o.code == exitOK || !strings.Contains(o.stderr, "--fields does not apply to jsonl shards") {
		t.Errorf("another format: got exit code %d, %s", o.code, o.stderr)
	}
}

// TestIndex_AsksForOneKindOfObjects: the error suggests commands that work as printed, with the
// given options.
func TestIndex_AsksForOneKindOfObjects(t *testing.T) {
	files := map[string]string{"train/metadata.csv": "file_name,label\na.jpg,7\n", "README.md": "about"}
	for _, name := range []string{"a.jpg", "b.PNG", "c.jpg"} {
		files["train/"+name], files["test/"+name] = "picture", "picture"
	}
	dir := write(t, files)
	o := millrace(t, nil, "index", dir, "--hidden")
	if o.code != exitUsage {
		t.Fatalf("got exit code %d, %s", o.code, o.stderr)
	}
	run := func(text string) (found []string) {
		for line := range strings.Lines(text) {
			command, comment, ok := strings.Cut(strings.TrimSpace(line), "  # ")
			if !ok || !strings.HasPrefix(command, "millrace index ") {
				continue
			}
			args := strings.Fields(strings.ReplaceAll(strings.TrimPrefix(command, "millrace "), "'", ""))
			o := millrace(t, nil, args...)
			found = append(found, strings.Join(args[2:], " ")+" # "+comment)
			if o.code != exitOK && !strings.Contains(o.stderr, "several splits") {
				t.Errorf("%s: got exit code %d, %s", command, o.code, o.stderr)
			}
		}
		return found
	}
	want := []string{"--hidden --match *.{PNG,jpg} # 6 image objects, each a sample, such as test/a.jpg", "--hidden --match *.csv # 1 csv shard, such as train/metadata.csv"}
	if got := run(o.stderr); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	o = millrace(t, nil, "index", dir, "--hidden", "--match", "*.{PNG,jpg}") // asks for the split
	want = []string{
		"--match *.{PNG,jpg} --hidden --split train # 3 shards, such as train/a.jpg", "--match *.{PNG,jpg} --hidden --split test # 3 shards, such as test/a.jpg",
		"--match *.{PNG,jpg} --hidden --split all # index all of them as one",
	}
	if got := run(o.stderr); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	pairs := write(t, map[string]string{"a.jpg": "x", "a.txt": "x"})
	if o := millrace(t, nil, "index", pairs); len(run(o.stderr)) != 3 {
		t.Errorf("got %s", o.stderr)
	}
	if o := millrace(t, nil, "index", write(t, map[string]string{"a.jpg": "x", "b.h5": "x", "noextension": "x"})); !strings.Contains(o.stderr, "b.h5: it is HDF5") || !strings.Contains(o.stderr, "--match '*.jpg'") {
		t.Errorf("got %s", o.stderr)
	}
}

// TestIndex_SuggestsPackForPairs: an image and a label with the same name are one sample. The
// suggested pack command works as printed. For files without common names, pack is not suggested.
func TestIndex_SuggestsPackForPairs(t *testing.T) {
	for label, comment := range map[string]string{
		"cls": "2 samples of several files, such as cat/1.cls and cat/1.jpg", "txt": "2 samples of several files, such as cat/1.jpg and cat/1.txt",
		"json": "2 samples of several files, such as cat/1.jpg and cat/1.json",
	} {
		dir := write(t, map[string]string{"cat/1.jpg": "x", "cat/1." + label: "7", "dog/1.jpg": "x", "dog/1." + label: "8", "dog/2.jpg": "x"})
		o := millrace(t, nil, "index", dir)
		_, after, _ := strings.Cut(o.stderr, "Choose:\n  millrace ")
		command, said, _ := strings.Cut(after, "  # ")
		said, _, _ = strings.Cut(said, "\n")
		if want := "pack " + dir + " file://" + dir + "-shards"; o.code != exitUsage || command != want || said != comment {
			t.Fatalf("%s: got exit code %d, %s, want first %s", label, o.code, o.stderr, want)
		}
		if o := ok(t, strings.Fields(command)...); !strings.Contains(o.stdout, "5 files") || !strings.Contains(o.stdout, "3 samples") {
			t.Errorf("%s: got %s", label, o.stdout)
		}
	}
	for what, files := range map[string]map[string]string{
		"one pair of five files": {"1.jpg": "x", "2.jpg": "x", "3.jpg": "x", "3.txt": "x", "about.txt": "x"},
		"frames of one name":     {"frame.0001.jpg": "x", "frame.0001.txt": "x", "frame.0002.jpg": "x"},
	} {
		if o := millrace(t, nil, "index", write(t, files)); o.code != exitUsage || strings.Contains(o.stderr, "of several files") {
			t.Errorf("%s: got %s", what, o.stderr)
		}
	}
}

// TestIndex_RejectsDatasetWithoutSamples: the published index does not change, and the error
// contains advice.
func TestIndex_RejectsDatasetWithoutSamples(t *testing.T) {
	dir := write(t, map[string]string{"a.JSONl": "{\"a\":1}\n"})
	ok(t, "index", dir)
	if err := os.WriteFile(filepath.Join(dir, "a.JSONl"), []byte("\n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := millrace(t, nil, "index", dir); o.code == exitOK || !strings.Contains(o.stderr, "the shards of format jsonl, 2 bytes") || !strings.Contains(o.stderr, "a.JSONl") {
		t.Errorf("got exit code %d, %s", o.code, o.stderr)
	}
	short := write(t, map[string]string{"a.bin": "0123456789"})
	if o := millrace(t, nil, "index", short, "--sequence-length", "8", "--dtype", "<u2"); o.code == exitOK || !strings.Contains(o.stderr, "shorter --sequence-length") {
		t.Errorf("tokens: got exit code %d, %s", o.code, o.stderr)
	}
	if o := millrace(t, nil, "index", short, "--sequence-length", "4", "--dtype", "<u2"); o.code != exitOK {
		t.Errorf("tokens: got exit code %d, %s", o.code, o.stderr)
	}
}

// TestIndex_ReadsArraysOfJSON one element per sample, and asks if elements are no objects.
func TestIndex_ReadsArraysOfJSON(t *testing.T) {
	dir := write(t, map[string]string{"llava.json": "[\n {\"image\": \"1.jpg\"},\n {\"image\": \"2.jpg\"}\n]\n", "1.jpg": "x", "2.jpg": "y", "n.json": "[1, 2]"})
	if o := ok(t, "index", dir, "--match", "llava.json"); !strings.Contains(o.stdout, "2 samples in 1 chunk of 1 jsonl shard") {
		t.Errorf("got %s", o.stdout)
	}
	o := millrace(t, nil, "index", dir, "--match", "n.json")
	for _, want := range []string{
		"object n.json is an array of JSON",
		"\n  millrace index file://" + dir + " --match n.json --format jsonl  # takes each value as one sample",
		"\n  millrace index file://" + dir + " --match n.json --format files  # takes each object as one sample",
	} {
		if o.code == exitOK || !strings.Contains(o.stderr, want) {
			t.Errorf("got exit code %d, %s, want %q", o.code, o.stderr, want)
		}
	}
	if o := ok(t, "index", dir, "--match", "n.json", "--format", "files"); !strings.Contains(o.stdout, "1 sample ") || strings.Contains(o.stdout+o.stderr, "pack") {
		t.Errorf("one sample: got %s%s", o.stdout, o.stderr)
	}
}

// TestIndex_WarnsOfNamesOutside: index warns of members of tar and zip archives whose names lead
// out of a directory. Batches contain these names unchanged.
func TestIndex_WarnsOfNamesOutside(t *testing.T) {
	var inTar, inZip bytes.Buffer
	archive, zipped := tar.NewWriter(&inTar), zip.NewWriter(&inZip)
	for _, name := range []string{"../../x.txt", "/etc/y.txt", "a/../z.txt", "a..b/fine.txt"} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 1}); err != nil {
			t.Fatal(err)
		}
		to, err := zipped.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range []io.Writer{archive, to} {
			if _, err := w.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"a.tar": inTar.String(), "a.zip": inZip.String()} {
		dir := write(t, map[string]string{name: body})
		if o := ok(t, "index", dir, "--json"); !strings.Contains(o.stdout, `"names_outside": 3`) || !strings.Contains(o.stdout, `"name_outside": "../../x"`) ||
			!strings.Contains(o.stderr, "3 samples have names that are absolute or contain '..', such as ../../x: ") {
			t.Errorf("%s: got %s%s", name, o.stdout, o.stderr)
		}
	}
	if o := ok(t, "index", write(t, map[string]string{"a..b.jpg": "x"})); strings.Contains(o.stderr, "absolute") {
		t.Errorf("a safe name: got %s", o.stderr)
	}
}
