package tfrecord_test

import (
	"encoding/binary"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/tfrecord"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func dataset() scantest.Dataset {
	return scantest.Dataset{
		Format:  tfrecord.Format(),
		Objects: scantest.Objects{"a.tfrecord": file("one", "", "three"), "b.tfrecord": file(), "c.tfrecord": file("four")},
		Mend:    fixChecksums,
		AsShard: func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.tfrecord": batch} },
	}
}

// fixChecksums recomputes the checksums of the lengths of all records.
func fixChecksums(b []byte) {
	for len(b) >= 12 {
		binary.LittleEndian.PutUint32(b[8:], masked(b[:8]))
		n := binary.LittleEndian.Uint64(b)
		if n > uint64(len(b)) {
			return
		}
		b = b[min(n+16, uint64(len(b))):]
	}
}

func TestConforms(t *testing.T) { scantest.Conforms(t, dataset()) }

func FuzzConforms(f *testing.F) { scantest.Fuzz(f, dataset()) }
