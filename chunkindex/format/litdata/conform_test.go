package litdata_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/litdata"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func TestConforms(t *testing.T) {
	for name, d := range map[string]scantest.Dataset{
		"items":  {Objects: golden(t)},
		"tokens": {Options: format.Options{SequenceLength: 4}, Objects: tokens(t, []int{6, 7}, []int{5})},
	} {
		t.Run(name, func(t *testing.T) {
			d.Format = litdata.Format()
			scantest.Conforms(t, d)
		})
	}
}
