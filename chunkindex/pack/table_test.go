package pack

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestTables_BecomeMembers checks the rows of every form of table, and their counts.
func TestTables_BecomeMembers(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		tables []string // below the source
		want   map[string]string
		report TableReport // without the name of the table
		bare   int         // samples without a row
	}{
		"metadata.jsonl of each split": {
			files: map[string]string{
				"train/a/1.png": "1", "train/2.png": "2", "test/1.png": "3",
				"train/metadata.jsonl": "{\"file_name\": \"a/1.png\", \"text\": \"one\"}\n{\"text\": 2, \"file_name\": \"./2.png\"}\n", "test/metadata.jsonl": `{"file_name":"1.png"}`,
			},
			want: map[string]string{
				"train/a/1.json": `{"file_name":"a/1.png","text":"one"}`, "train/2.json": `{"text":2,"file_name":"./2.png"}`, "test/1.json": `{"file_name":"1.png"}`,
				"train/a/1.png": "1", "train/2.png": "2", "test/1.png": "3",
			},
			report: TableReport{Rows: 1, Joined: 1},
		},
		"metadata.csv, with numbers and texts": {
			files:  map[string]string{"1.wav": "1", "2.wav": "2", "metadata.csv": "\xef\xbb\xbffile_name,n,code,text\n1.wav,1.50,007,\"a \"\"b\"\", c\"\n2.wav,-2,8,\n"},
			want:   map[string]string{"1.json": `{"file_name":"1.wav","n":1.50,"code":"007","text":"a \"b\", c"}`, "2.json": `{"file_name":"2.wav","n":-2,"code":"8","text":""}`, "1.wav": "1", "2.wav": "2"},
			report: TableReport{Rows: 2, Joined: 2},
		},
		"LLaVA: several rows of one image, and rows without": {
			files:  map[string]string{"images/1.jpg": "1", "images/2.jpg": "2", "mix.json": `[{"id": 0, "image": "images/1.jpg"}, {"id": 1, "image": "images/1.jpg"}, {"id": 2}, {"id": 3, "image": "images/gone.jpg"}]`},
			tables: []string{"mix.json"},
			want:   map[string]string{"images/1.json": `[{"id":0,"image":"images/1.jpg"},{"id":1,"image":"images/1.jpg"}]`, "images/1.jpg": "1", "images/2.jpg": "2"},
			report: TableReport{Rows: 4, Joined: 2, Unnamed: 1, Missing: 1, MissingOf: "images/gone.jpg", Several: 1, SeveralOf: "images/1.jpg"},
			bare:   1,
		},
		"COCO": {
			files: map[string]string{
				"val/1.jpg": "1", "val/2.jpg": "2",
				"val/instances.json": `{"info": {}, "images": [{"id": 7, "file_name": "1.jpg"}, {"id": 8, "file_name": "2.jpg"}], "annotations": [{"image_id": 7, "bbox": [0, 1]}, {"image_id": 7, "id": 2}]}`,
			},
			tables: []string{"val/instances.json"},
			want: map[string]string{
				"val/1.json": `{"annotations":[{"image_id":7,"bbox":[0,1]},{"image_id":7,"id":2}],"file_name":"1.jpg","id":7}`, "val/2.json": `{"annotations":[],"file_name":"2.jpg","id":8}`,
				"val/1.jpg": "1", "val/2.jpg": "2",
			},
			report: TableReport{Rows: 2, Joined: 2},
		},
		"a sample of several files": {
			files:  map[string]string{"1.jpg": "1", "1.txt": "t", "metadata.jsonl": `{"file_name": "1.jpg"}`},
			want:   map[string]string{"1.json": `{"file_name":"1.jpg"}`, "1.jpg": "1", "1.txt": "t"},
			report: TableReport{Rows: 1, Joined: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, c.files)
			var opt Options
			for _, table := range c.tables {
				opt.Tables = append(opt.Tables, filepath.Join(dir, table))
			}
			store := memstore.New()
			r := mustPack(t, store, opt, dir)
			if diff := cmp.Diff(c.want, contents(t, store)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			got := r.Tables[0]
			got.Table = ""
			if diff := cmp.Diff(c.report, got); diff != "" || r.WithoutRow != c.bare || (r.WithoutRowOf != "") != (c.bare > 0) {
				t.Errorf("%d samples without a row, such as %q (-want +got):\n%s", r.WithoutRow, r.WithoutRowOf, diff)
			}
			if again := mustPack(t, store, opt, dir); again.ReusedShards != again.Shards {
				t.Errorf("again: got %+v, want nothing sent", again)
			}
		})
	}
}

// TestTables_Refuse checks that tables which fit no file, and malformed ones, are rejected by name.
func TestTables_Refuse(t *testing.T) {
	for want, files := range map[string]map[string]string{
		"metadata.jsonl: no row has a column that names a file":    {"1.jpg": "1", "metadata.jsonl": `{"name": "1.jpg"}`},
		"metadata.jsonl names no file of the sources, as in \"3":   {"1.jpg": "1", "metadata.jsonl": `{"file_name": "3.jpg"}`},
		"metadata.jsonl: row 2:":                                   {"1.jpg": "1", "metadata.jsonl": "{\"file_name\": \"1.jpg\"}\n[1]"},
		"metadata.jsonl: invalid character":                        {"1.jpg": "1", "metadata.jsonl": "{\"file_name\": }"},
		"metadata.jsonl: unexpected EOF":                           {"1.jpg": "1", "metadata.jsonl": "{\"file_name\": \"1.jpg\""},
		"metadata.csv: it is not UTF-8":                            {"1.jpg": "1", "metadata.csv": "file_name\n\xff"},
		"metadata.csv: record on line 2: wrong number of fields":   {"1.jpg": "1", "metadata.csv": "file_name\n1.jpg,2"},
		"1.json\" already is a .json file, so \"1.jpg\" of table ": {"1.jpg": "1", "1.json": "{}", "metadata.jsonl": `{"file_name": "1.jpg"}`},
		"metadata.jsonl describe one sample, \"1\": remove one":    {"1.jpg": "1", "1.txt": "t", "metadata.jsonl": "{\"file_name\": \"1.jpg\"}\n{\"file_name\": \"1.txt\"}"},
		"metadata.jsonl describe one sample, \"a/1\": remove one":  {"a/1.jpg": "1", "metadata.jsonl": `{"file_name": "a/1.jpg"}`, "a/metadata.jsonl": `{"file_name": "1.jpg"}`},
	} {
		dir := tree(t, files)
		store := memstore.New()
		if _, err := Pack(t.Context(), []string{dir}, store, "", Options{}); err == nil || !strings.Contains(err.Error(), want) || len(contents(t, store)) > 0 {
			t.Errorf("got %v, want %q, and nothing written", err, want)
		}
	}
	dir := tree(t, map[string]string{"1.jpg": "1"})
	missing := Options{Tables: []string{filepath.Join(dir, "no.json")}}
	if _, err := Pack(t.Context(), []string{dir}, memstore.New(), "", missing); err == nil || !strings.Contains(err.Error(), "no.json: no such file") {
		t.Errorf("a table that does not exist: got %v", err)
	}
	other := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(other, []byte(`{"image": "1.jpg"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	if r := mustPack(t, store, Options{Tables: []string{other}}, dir); r.Tables[0].Joined != 1 || contents(t, store)["1.json"] != `{"image":"1.jpg"}` {
		t.Errorf("a table outside of the source: got %+v", r)
	}
}
