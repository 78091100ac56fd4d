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

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset()) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset()) }
