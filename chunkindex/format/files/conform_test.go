package files_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/files"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func dataset() scantest.Dataset {
	return scantest.Dataset{Format: files.Format(), Objects: scantest.Objects{"a/0.jpg": []byte("0"), "a/1.jpg": []byte("one"), "b.png": []byte("2")}}
}

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset()) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset()) }
