package integration_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

// foreignRefused maps the path endings of other projects' files to the reason why Millrace refuses
// them. The files are from Apache's parquet-testing and from parquet-go's own tests.
var foreignRefused = map[string]string{
	"-corrupt-checksum.parquet":                "checksum of a page does not match",
	".parquet.encrypted":                       "encrypted, which is not supported",
	"hadoop_lz4_compressed.parquet":            "LZ4 in Hadoop's framing, which is not supported",
	"/hadoop_lz4_compressed_larger.parquet":    "LZ4 in Hadoop's framing, which is not supported",
	"/list_columns.parquet":                    "a list of fixed-size values has a null element",
	"/nullable.impala.parquet":                 "a list of fixed-size values has a null element",
	"/large_string_map.brotli.parquet":         "write the file again with",
	"/column_chunk_key_value_metadata.parquet": "no samples",
	"/nation.dict-malformed.parquet":           "exceeds its column chunk",
	"/testdata/empty.parquet":                  "no samples",
	"/num_values_exceeds_data.parquet":         "page has 7732 values, but only 500 are left in the column chunk",
}

// TestFilesOfOtherProjects indexes the test files of parquet-go and pyarrow, most of them Apache's
// parquet-testing, and those in the folder that MILLRACE_FILES names. Many writers made them, over
// many years. Each file is either read, with the same rows that pyarrow reads, or refused by name.
// A file that pyarrow refuses may be either.
func TestFilesOfOtherProjects(t *testing.T) {
	dir := t.TempDir()
	files := foreignFiles(t, dir)
	store := harness.Open(t, "minio")
	objects := store.Objects(t)
	var read, args []string
	for _, name := range files.names {
		upload(t, objects, filepath.Join(dir, name), name)
		if r := harness.Run(t, store, "index", store.Dataset(name)); r.Code == 0 {
			read, args = append(read, name), append(args, "--dataset", name+"="+store.Dataset(name))
		} else {
			files.refused[name] = r.Stderr
		}
	}
	want := library(t, "columnar.py", append([]string{"judge", dir}, files.names...)...)
	ours := 0
	for name, why := range files.refused {
		files.checkRefusal(t, name, why, want[name]["refused"])
		if want[name]["refused"] == "" {
			ours++
		}
	}
	g := harness.Serve(t, store, read[0], args[2:]...)
	asked := map[string]epochFiles{}
	for _, name := range read {
		asked[name] = epochOfRows(t, g, name, "tar")
	}
	got, alone := readRows(t, asked), 0
	var same []string
	for _, name := range read {
		if want[name]["refused"] != "" {
			alone++
			t.Logf("%s is read, and pyarrow refuses it: %.200s", files.paths[name], want[name]["refused"])
			continue
		}
		if strings.HasSuffix(files.paths[name], "/int96_from_spark.parquet") { // one time in it exceeds the range of pyarrow's microseconds
			const beyond = "rows/000000005"
			want[name][beyond] = got[name][beyond]
		} else {
			same = append(same, name)
		}
		sameRows(t, files.paths[name], want[name], got[name])
	}
	checkAnswers(t, g, dir, same...)
	t.Logf("figure: of %d files of other projects %d have the rows that pyarrow reads, %d are refused by name, %d of which pyarrow reads, and %d are read that pyarrow refuses",
		len(files.names), len(read)-alone, len(files.refused), ours, alone)
}

// foreign holds files of other projects, each in a separate directory.
type foreign struct {
	names   []string
	paths   map[string]string // source path of each file, by name
	refused map[string]string // reason of each refusal, by name
}

// foreignFiles copies the files into directories below dir.
func foreignFiles(t *testing.T, dir string) *foreign {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/parquet-go/parquet-go").Output()
	if err != nil {
		t.Fatalf("find parquet-go: %v", err)
	}
	python, _ := harness.Python(t)
	pyarrow, err := filepath.Glob(filepath.Join(filepath.Dir(python), "..", "lib", "python*", "site-packages", "pyarrow", "tests", "data"))
	if err != nil || len(pyarrow) != 1 {
		t.Fatalf("find pyarrow's files: %v, %v", pyarrow, err)
	}
	f := &foreign{paths: map[string]string{}, refused: map[string]string{}}
	all := math.MaxInt
	for root, most := range map[string]int{filepath.Join(strings.TrimSpace(string(module)), "testdata"): 1 << 20, pyarrow[0]: all, os.Getenv("MILLRACE_FILES"): all} {
		if root == "" {
			continue
		}
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return f.copy(path, dir, most)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// copy copies a file if it contains rows. It leaves out files of more than most bytes, which would
// take pyarrow's scalars minutes, except in a long run.
func (f *foreign) copy(path, dir string, most int) error {
	format, suffix := "parquet", ".parquet"
	switch ext := filepath.Ext(path); ext {
	case ".parquet":
	case ".encrypted":
	case ".arrow", ".arrows", ".feather", ".arrow_file", ".stream":
		format, suffix = "arrow", ".arrow"
	default:
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > most && !long() {
		return err
	}
	name := fmt.Sprintf("%s-%03d", format, len(f.names))
	f.names, f.paths[name] = append(f.names, name), path
	if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name, "rows"+suffix), b, 0o644)
}

// checkRefusal checks that the table lists a refused file, unless pyarrow refuses it too, and that
// the error names the object.
func (f *foreign) checkRefusal(t *testing.T, name, why, judge string) {
	t.Helper()
	known := judge != ""
	for end, want := range foreignRefused {
		known = known || strings.HasSuffix(filepath.ToSlash(f.paths[name]), end) && strings.Contains(why, want)
	}
	if !known || !strings.Contains(why, name) {
		t.Errorf("%s is refused, which pyarrow reads: %s", f.paths[name], why)
	}
}
