package integration_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/integration/harness"
)

// columnar lists the data sets of python/columnar.py and of writeInGo. Each name begins with the
// format.
var columnar = []string{
	"arrow-flat", "arrow-nested", "arrow-views", "arrow-feather", "arrow-polars", "arrow-polars-streams", "arrow-datasets", "arrow-go",
	"parquet-pyarrow", "parquet-polars", "parquet-duckdb", "parquet-fastparquet", "parquet-datasets", "parquet-go",
	"parquet-committed", "parquet-types", "parquet-by-duckdb", "parquet-by-polars", "parquet-by-datasets", "parquet-by-fastparquet",
	"parquet-by-spark", "parquet-by-spark-legacy", "parquet-encoded",
}

// TestRowsAsPyarrowReadsThem serves Parquet and Arrow files by several writers in place. It reads
// an epoch of each as tars and as MDS, as docs/spec/rows.md specifies. Every row
// is delivered once. Its values equal those that pyarrow reads from the file, in type and in every
// byte. For files that this test writes, they also equal those that the writer's library reads.
func TestRowsAsPyarrowReadsThem(t *testing.T) {
	dir := t.TempDir()
	want := library(t, "columnar.py", "write", dir)
	for name, rows := range library(t, "columnar.py", append([]string{"judge", dir}, writeInGo(t, dir)...)...) {
		want[name] = rows
	}
	store := harness.Open(t, "minio")
	g := serveAll(t, store, store.Objects(t), dir, columnar...)
	asked := map[string]epochFiles{}
	for _, name := range columnar {
		for _, form := range []string{"tar", "mds"} {
			asked[name+" as "+form] = epochOfRows(t, g, name, form)
		}
	}
	got := readRows(t, asked)
	for name := range asked {
		judge := want[name]
		if judge == nil { // all forms except MDS report nulls alike
			dataset, _, _ := strings.Cut(name, " ")
			judge = want[dataset]
		}
		sameRows(t, name, judge, got[name])
	}
	if r := g.Get(t, "/v1/datasets/parquet-pyarrow/epochs/0/batches/0?format=jsonl"); r.Status != 400 || !strings.Contains(string(r.Body), "must be one of rows, tar") {
		t.Errorf("JSON Lines of rows: got %d, %s, want it refused by name", r.Status, r.Body)
	}
	harness.MustRun(t, store, "verify", store.Dataset("parquet-pyarrow"))
	checkAnswers(t, g, dir, "arrow-go", "parquet-go")
}

// epochFiles is the input of python/columnar.py: the description of a data set, and the files of an
// epoch's batches in one form.
type epochFiles struct {
	Description json.RawMessage `json:"description"`
	Batches     []string        `json:"batches"`
}

// epochOfRows saves an epoch of a data set of rows in one form.
func epochOfRows(t *testing.T, g *harness.Gateway, name, form string) epochFiles {
	t.Helper()
	e := epochFiles{Description: g.MustGet(t, "/v1/datasets/"+name).Body}
	var told struct {
		Format      string `json:"format"`
		ContentType string `json:"content_type"`
	}
	if err := json.Unmarshal(e.Description, &told); err != nil {
		t.Fatal(err)
	}
	if format, _, _ := strings.Cut(name, "-"); told.Format != format || told.ContentType != "application/vnd.millrace.rows" {
		t.Errorf("%s: got %+v, want %s that is answered as rows", name, told, format)
	}
	if form == "mds" {
		e.Batches = []string{saveAs(t, name, asMDS(t, g, name, 40))}
		return e
	}
	dir := t.TempDir()
	for i, body := range epochAs(t, g, name, form, "application/x-tar", 40) {
		e.Batches = append(e.Batches, filepath.Join(dir, strconv.Itoa(i)))
		if err := os.WriteFile(e.Batches[i], body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// readRows has pyarrow read epochs, and returns the digests by name.
func readRows(t *testing.T, asked map[string]epochFiles) told {
	t.Helper()
	b, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "asked.json")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return library(t, "columnar.py", "read", file)
}

// sameRows is like same, for rows. For the first few wrong rows it prints the values that differ.
func sameRows(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	if len(want) < 2 || len(got) != len(want) { // one entry is the types
		t.Errorf("%s: got %d rows, want %d", what, len(got), len(want))
	}
	told := 0
	for key := range want {
		if want[key] == got[key] || told == 3 {
			continue
		}
		var wanted, found map[string]string
		if err := json.Unmarshal([]byte(want[key]), &wanted); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(got[key]), &found); err != nil {
			t.Errorf("%s, %s: got %q, want it", what, key, got[key])
		}
		t.Errorf("%s, %s (-want +got):\n%s", what, key, cmp.Diff(wanted, found))
		told++
	}
}
