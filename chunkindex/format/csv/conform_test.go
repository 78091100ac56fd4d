package csv_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/csv"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func dataset() scantest.Dataset {
	return scantest.Dataset{
		Format: csv.Format(),
		Objects: scantest.Objects{
			"a.csv": []byte("\xef\xbb\xbfid,text\r\n1,\"a \"\"quoted\"\"\nline\"\r\n\n2,\n"), "b.csv": {}, "c.csv": []byte("id,text\n3,\"no, line feed\""),
		},
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.csv": batch} },
	}
}

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset()) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset()) }
