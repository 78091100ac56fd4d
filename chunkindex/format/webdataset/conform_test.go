package webdataset_test

import (
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func dataset(t testing.TB) scantest.Dataset {
	t.Helper()
	return scantest.Dataset{
		Format: webdataset.Format(),
		Objects: scantest.Objects{
			"a.tar": archive(t, member{name: "0.jpg", body: "0"}, member{name: "._0.cls", body: "finder"}, member{name: "0.cls", body: strings.Repeat("5", 600)}, member{name: "1.jpg"}),
			"b.tar": archive(t),
			"c.tar": archive(t, member{name: strings.Repeat("long", 40) + ".jpg", body: "1"}),
		},
		Mend:    indextest.MendTar,
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.tar": batch} },
	}
}

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset(t)) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset(f)) }
