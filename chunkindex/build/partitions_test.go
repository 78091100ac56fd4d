package build

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestBuild_RefusesPartitions checks that partitions in the layout of pyarrow's write_to_dataset
// and Spark's partitionBy are rejected, unless there is only one or a pattern selects them.
func TestBuild_RefusesPartitions(t *testing.T) {
	table := string(parquetFile(t, "by-polars"))
	bodies := map[string]string{"parquet": table, "jsonl": "{}\n", "csv": "a,b\nx,y\n", "jpg": "x"}
	for _, c := range []struct{ keys, match, split, as string }{
		{"a=1/x.csv a=2/x.csv y.csv", "!y.csv", "", "csv"},
		{"a=1/x.csv a=2/x.csv", "", "", "csv"},
		{"a=1/x.jsonl a=2/x.jsonl", "", "", "json"},
		{"split=train/a=1/x.jsonl split=train/a=2/x.jsonl split=test/a=1/x.jsonl", "", "train", "json"},
		{"split=train/x.jsonl split=test/x.jsonl", "", "all", "json"},

		{"label=cat/1.parquet label=dog/1.parquet", "", "", ""},
		{"a=1/x.csv a=2/x.csv", "*", "", ""},
		{"a=1/x.csv a=2/x.csv", "a=1/*", "", ""},
		{"a=1/x.csv a=1/y.csv", "", "", ""},
		{"split=train/x.jsonl split=test/x.jsonl", "", "train", ""},
		{"a=1/x.jpg a=2/x.jpg", "", "", ""},
		{"=1/x.jsonl =2/x.jsonl", "", "", ""},
		{"d/x=1.jsonl d/x=2.jsonl", "", "", ""},
	} {
		store := memstore.New()
		for key := range strings.FieldsSeq(c.keys) {
			store.Set(key, []byte(bodies[key[strings.LastIndexByte(key, '.')+1:]]))
		}
		_, err := Run(t.Context(), store, "", Options{Match: c.match, Split: c.split})
		choice, refused := errors.AsType[*format.ChoiceError](err)
		switch {
		case !refused:
			if err != nil || c.as != "" {
				t.Errorf("%s %s %s: got %v, want refused as %q", c.keys, c.match, c.split, err, c.as)
			}
		case c.as == "" || !strings.Contains(choice.Ways[0].Command, "format='"+c.as+"', partitioning='hive')") || choice.Ways[1].Flag != "match" || choice.Ways[1].Value != "*":
			t.Errorf("%s %s %s: got %v, want %q", c.keys, c.match, c.split, err, c.as)
		}
	}
}
