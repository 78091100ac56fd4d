package tokens_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func datasets() map[string]scantest.Dataset {
	return map[string]scantest.Dataset{
		"megatron": {Options: format.Options{SequenceLength: 4}, Objects: scantest.Objects{
			"a.bin": text(13, 2), "a.idx": index(6, 7), "b.bin": text(3, 2), "b.idx": index(3),
		}},
		"llm.c": {Options: format.Options{SequenceLength: 4}, Objects: scantest.Objects{"a.bin": llmc(20240520, 1, 9, text(9, 2)), "b.bin": llmc(20240520, 1, 5, text(5, 2))}},
		"flat":  {Options: format.Options{SequenceLength: 4, DType: "<u2"}, Objects: scantest.Objects{"a.bin": text(11, 2), "b.bin": text(9, 2)}},
		"npy":   {Options: format.Options{SequenceLength: 3}, Objects: scantest.Objects{"a.npy": npy("<u4", 9, text(9, 4)), "b.npy": npy("<u4", 4, text(4, 4))}},
	}
}

func TestConforms(t *testing.T) {
	for name, d := range datasets() {
		t.Run(name, func(t *testing.T) {
			d.Format = tokens.Format()
			scantest.Conforms(t, d)
		})
	}
}
