package records_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/records"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func datasets() map[string]scantest.Dataset {
	flat := func(batch []byte, _ int) scantest.Objects { return scantest.Objects{"batch.bin": batch} }
	return map[string]scantest.Dataset{
		"npy":   {Objects: scantest.Objects{"a.npy": npy(3), "b.npy": npy(0), "c.npy": npy(1)}},
		"flat":  {Options: format.Options{RecordSize: 12}, Objects: scantest.Objects{"a.bin": make([]byte, 36), "b.bin": make([]byte, 12)}, AsShard: flat},
		"cifar": {Objects: scantest.Objects{"data_batch_1.bin": cifar(1, 1)}},
	}
}

func TestConforms(t *testing.T) {
	for name, d := range datasets() {
		t.Run(name, func(t *testing.T) {
			d.Format = records.Format()
			scantest.Conforms(t, d)
		})
	}
}
