package jsonl_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/jsonl"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func dataset() scantest.Dataset {
	return scantest.Dataset{
		Format: jsonl.Format(),
		Objects: scantest.Objects{
			"a.jsonl": []byte("\xef\xbb\xbf{\"a\": \"\u00e4\"}\r\n\n  \n[1, 2]\n12\n\"text\"\n"), "b.jsonl": {}, "c.ndjson": []byte("{}\n{\"no\": \"line feed\"}"),
		},
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.jsonl": batch} },
	}
}

// decoded returns shards whose values do not have a line each.
func decoded() scantest.Dataset {
	return scantest.Dataset{
		Format: jsonl.Format(),
		Objects: scantest.Objects{
			"a.json": []byte("\xef\xbb\xbf[\n {\"a\": \"\u00e4 ]\"},\n {\n  \"b\": [1, -2.5e3, null]\n }\n]\n"), "b.json": []byte("{\n}\n{\"c\": \"\\\"}\"} {}"), "c.json": []byte("{}\n{}\n"),
		},
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.jsonl": batch} },
	}
}

func TestConforms(t *testing.T) {
	t.Run("lines", func(t *testing.T) { scantest.Conforms(t, dataset()) })
	t.Run("decoded", func(t *testing.T) { scantest.Conforms(t, decoded()) })
}

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset()) }

func FuzzDecoded(f *testing.F) { scantest.Fuzz(f, decoded()) }
