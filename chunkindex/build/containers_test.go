package build

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/testing/codectest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

func storeOf(objects map[string]string) *memstore.Store {
	store := memstore.New()
	for key, body := range objects {
		store.Set(key, []byte(body))
	}
	return store
}

// TestRun_RejectsContainers checks that objects that may hold several samples are rejected unless
// the user selects them. The error must name their type and the remedy.
func TestRun_RejectsContainers(t *testing.T) {
	type row struct{ key, body, want string }
	rows := []row{
		{"x", "PAR1....", "it is Parquet, but its name does not say so: let its name end in .parquet"},
		{"x", "ARROW1\x00\x00", "it is Arrow IPC, but its name does not say so: let its name end in .arrow"},
		{"x", "FEA1", "it is Feather"},
		{"x", "\xfd7zXZ\x00\x00", "let its name end in .xz"},
		{"x", "BZh91AY&SY", "it is compressed by bzip2, which is not supported: compress it with zstd or gzip instead"},
		{"x", "PK\x03\x04", "it is a zip archive"},
		{"x", "\x89HDF\r\n\x1a\n", "it is HDF5"},
		{"x", strings.Repeat("\x00", 16) + "\xde\xc0\xef\xbe", "it is LMDB"},
		{"a", "\x1f\x8b\x08\x00", "let its name end in .gz"},
		{"a", "\x28\xb5\x2f\xfd", "let its name end in .zst"},
		{"x", "MATLAB 5.0 MAT-file", "it is MATLAB"},
		{"x", "Obj\x01", "it is Avro"},
		{"a.pkl", "", "it is pickled by Python, which is not supported: load it with torch.load"},
		{"a.jsonl.lz4", "", "compressed by lz4, which is not supported: compress it with zstd"},
		{"a.jsonl.bz2", "", "compressed by bzip2"},
		{"a.json.lz4", "", "compressed by lz4"},
		{"a.jsonl.br", "", "Brotli"},
		{"a.warc.gz", "", "it is WARC"},
		{"a.ORC", "", "it is ORC"},
		{"a.zip", "", "1 image (*.jpg), 1 zip (*.zip): choose one kind with --match"},
		{"a.csv", "", "1 csv (*.csv), 1 image (*.jpg): choose one kind with --match"},
		{"db/data.mdb", "", "it is LMDB"},
		{"d.zarr/0.0", "", "it is zarr"},
		{"d.lance/data/x", "", "it is Lance"},
		{"x/zarr.json", "{", "it is zarr"},
		{"t-train.array_record-00000-of-00002", "", "it is ArrayRecord"},
		{"a.dat", "who knows", "may hold any number of samples"},
		{"train.rec", "\x0a\x23\xd7\xce", "may hold any number of samples"},
		{"README.md", "nothing else", "no shards found"},
	}
	for _, c := range containers() {
		for _, suffix := range c.suffixes {
			if c.cure != alone {
				rows = append(rows, row{"a" + suffix, "", "it is " + c.name + ", "})
			}
		}
	}
	for _, c := range rows {
		store := storeOf(map[string]string{"b.jpg": "image", c.key: c.body + " "})
		if c.key == "README.md" {
			store.Delete(t.Context(), "b.jpg")
		}
		if rep, err := Run(t.Context(), store, "", Options{}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.key) && c.key != "README.md" && c.want[0] != '1' {
			t.Errorf("%s %q: got %+v, %v, want %q", c.key, c.body, rep, err, c.want)
		}
		if rep, err := Run(t.Context(), store, "", Options{Format: "files"}); err != nil || rep.Samples == 0 {
			t.Errorf("%s, asked for: got %+v, %v, want a sample each", c.key, rep, err)
		}
	}
}

// TestRun_RejectsContainerFolders checks that each object of a container with several objects
// identifies the container.
func TestRun_RejectsContainerFolders(t *testing.T) {
	for want, keys := range map[string][]string{
		"data/a.lance: it is Lance":  {"_versions/1.manifest", "data/a.lance"},
		"more/zarr.json: it is zarr": {"c/0/0", "more/zarr.json"},
		"x/0.0: it is zarr":          {".zgroup", "x/0.0"},
		"data.mdb: it is LMDB":       {"data.mdb", "lock.mdb"},
	} {
		store := memstore.New()
		for _, key := range keys {
			store.Set(key, []byte("something"))
		}
		if rep, err := Run(t.Context(), store, "", Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %+v, %v, want %q", keys, rep, err, want)
		}
	}
}

// TestRun_RejectsTablesWithALog: the files of a table with a log may contain rows that no longer
// belong to the table.
func TestRun_RejectsTablesWithALog(t *testing.T) {
	for log, kind := range map[string]string{
		"_delta_log/00000000000000000000.json": "Delta Lake", "sales/_delta_log/0.checkpoint.parquet": "Delta Lake",
		".hoodie/hoodie.properties": "Hudi", "metadata/00001-6a.metadata.json": "Iceberg",
	} {
		store := storeOf(map[string]string{"part-0.parquet": "PAR1", log: "something"})
		if rep, err := Run(t.Context(), store, "", Options{}); err == nil || !strings.Contains(err.Error(), "object "+log+": this is a table of "+kind+", whose log") {
			t.Errorf("%s: got %+v, %v, want a refusal", log, rep, err)
		}
		if _, err := Run(t.Context(), store, "", Options{Match: "*.parquet"}); err == nil || strings.Contains(err.Error(), "a table of") {
			t.Errorf("%s: got %v, want the error of the chosen file", log, err)
		}
	}
	if _, err := Run(t.Context(), storeOf(map[string]string{"a.jsonl": "{}\n", "metadata.json": "{}"}), "", Options{}); err != nil {
		t.Error(err)
	}
}

// TestRun_ContainersNextToShards checks that, next to shards, shards with an unsupported
// compression are rejected, and that other objects are counted, with an example.
func TestRun_ContainersNextToShards(t *testing.T) {
	lines := map[string]string{"a.jsonl": "{}\n", "a.csv": "a,b\n", "a.parquet": "PAR1", "a.orc": "ORC", "a.zip": "PK\x03\x04", "a_stats.json": "{}"}
	if rep, err := Run(t.Context(), storeOf(lines), "", Options{}); err != nil || rep.Samples != 1 || rep.Ignored != 5 || rep.IgnoredExample != "a.csv" {
		t.Errorf("got %+v, %v, want one shard, and five ignored", rep, err)
	}
	lines["b.jsonl.lz4"] = "\x04\x22\x4d\x18"
	if rep, err := Run(t.Context(), storeOf(lines), "", Options{}); err == nil || !strings.Contains(err.Error(), "object b.jsonl.lz4: it is compressed by lz4") {
		t.Errorf("got %+v, %v, want the shard that is lost", rep, err)
	}
}

// TestRun_NamedFormatTakesEveryObject checks that, if the user names the format, it accepts every
// object that does not describe data, or returns an error.
func TestRun_NamedFormatTakesEveryObject(t *testing.T) {
	array := "\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }"
	array += strings.Repeat(" ", 127-len(array)) + "\n" + "01234567"
	for _, c := range []struct {
		opt   Options
		right map[string]string
	}{
		{Options{Format: "jsonl"}, map[string]string{"a.jsonl": "{}\n", "b.json": "{}\n", "c": "1\n"}},
		{Options{Format: "records", Hints: format.Options{RecordSize: 2}}, map[string]string{"a.bin": "12", "b.raw": "1234"}},
		{Options{Format: "records"}, map[string]string{"a.npy": array}},
		{Options{Format: "tokens", Hints: format.Options{SequenceLength: 1, DType: "<u2"}}, map[string]string{"a.bin": "1234", "b.bin": "123456"}},
	} {
		name := fmt.Sprintf("%s %v", c.opt.Format, c.opt.Hints)
		store := storeOf(c.right)
		for key, body := range map[string]string{"README.md": "about", "LICENSE": "mine", "dataset_info.json": "{\n}", "_SUCCESS": "", ".DS_Store": "x"} {
			store.Set(key, []byte(body))
		}
		if rep, err := Run(t.Context(), store, "", c.opt); err != nil || rep.Shards != len(c.right) || rep.Ignored != 4 || rep.Hidden != 1 {
			t.Errorf("%s: got %+v, %v, want %d shards, 4 ignored and 1 hidden", name, rep, err, len(c.right))
		}
		store.Set("part-7.xyz", []byte("\xff\xfe"))
		if rep, err := Run(t.Context(), store, "", c.opt); err == nil || !strings.Contains(err.Error(), "part-7.xyz") {
			t.Errorf("%s: got %+v, %v, want the object that cannot be taken", name, rep, err)
		}
	}
}

// TestRun_IgnoresCaseOfSuffixes checks that suffixes are case-insensitive.
func TestRun_IgnoresCaseOfSuffixes(t *testing.T) {
	store := memstore.New()
	store.Set("A.JSONL.GZ", codectest.PackAt(1, []byte("{}\n{}\n")))
	store.Set("b.Jsonl", []byte("{}\n"))
	rep, err := Run(t.Context(), store, "", Options{})
	if err != nil || rep.Format != "jsonl" || rep.Samples != 3 || rep.Shards != 2 {
		t.Errorf("got %+v, %v, want 3 lines of 2 shards", rep, err)
	}
}

// TestDocs_ListFormatsAndContainers checks that docs/formats.md has a row for every format, and
// that docs/spec/formats.md has the names and the remedy for every container.
func TestDocs_ListFormatsAndContainers(t *testing.T) {
	table, _, _ := strings.Cut(readPage(t, "formats.md"), "## Detection")
	for _, f := range formats() {
		if row := fmt.Sprintf("| [`%s`](#%s) |", f.Name, f.Name); strings.Count(table, row) != 1 {
			t.Errorf("docs/formats.md: format %s: want one row that begins with %s", f.Name, row)
		}
	}
	details := readPage(t, "spec/formats.md")
	_, unread, _ := strings.Cut(details, "| refused |")
	unread, _, _ = strings.Cut(unread, "\n\n")
	for _, c := range containers() {
		names := "by its first bytes"
		if len(c.suffixes) > 0 {
			names = "`" + strings.Join(c.suffixes, "`, `") + "`"
		}
		if row := fmt.Sprintf("| %s | %s | %s |\n", c.name, names, c.cure); strings.Count(unread+"\n", row) != 1 {
			t.Errorf("docs/spec/formats.md: want one row %s", row)
		}
	}
	if rows := strings.Count(unread, "\n| "); rows != len(containers()) {
		t.Errorf("docs/spec/formats.md: got %d rows of refused objects, want %d: remove those of formats that are read", rows, len(containers()))
	}
	_, notes, _ := strings.Cut(details, "| passed over |")
	notes, _, _ = strings.Cut(notes, "\n\n")
	for _, n := range format.AllNotes() {
		var names []string
		for _, word := range n.Words {
			names = append(names, "`"+strings.ToUpper(word)+"`")
		}
		for _, name := range slices.Concat(n.Names, n.Suffixes) {
			names = append(names, "`"+name+"`")
		}
		for _, begin := range n.Begins {
			names = append(names, "`"+begin+"*`")
		}
		more := ""
		if len(n.Words) > 0 {
			more = ", alone or in `.txt` or `.pdf`"
		}
		if row := fmt.Sprintf("| %s%s | %s |", strings.Join(names, ", "), more, n.By); strings.Count(notes, row) != 1 {
			t.Errorf("docs/spec/formats.md: want one row %s", row)
		}
	}
	if rows := strings.Count(notes, "\n| "); rows != len(format.AllNotes()) {
		t.Errorf("docs/spec/formats.md: got %d rows of ignored objects, want %d", rows, len(format.AllNotes()))
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
