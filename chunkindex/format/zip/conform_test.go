package zip_test

import (
	archive "archive/zip"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/zip"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func dataset(t testing.TB) scantest.Dataset {
	t.Helper()
	return scantest.Dataset{
		Format: zip.Format(),
		Objects: scantest.Objects{
			"a.zip": write(t, true, entry{"0.jpg", "0", 0}, entry{"._0.cls", "finder", 0}, entry{"0.cls", "5", 0}, entry{"5.jpg", strings.Repeat("5", 60), 0}, entry{"d/", "", 0}, entry{"d/1.jpg", "1", 0}),
			"b.zip": write(t, true),
			"c.zip": write(t, false, entry{"0.jpg", strings.Repeat("0", 60), archive.Deflate}, entry{"1.jpg", "1", 0}, entry{"1.cls", "22", archive.Deflate}, entry{"1.txt", "", 0}, entry{"2.jpg", "22", archive.Deflate}),
		},
	}
}

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset(t)) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset(f)) }
