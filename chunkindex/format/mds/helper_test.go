package mds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/mds"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

const shardKey = "shard.00000.mds"

// golden returns a dataset that MDSWriter itself has written with size_limit=None.
func golden(t testing.TB) scantest.Objects {
	t.Helper()
	return scantest.Files(t, "testdata", shardKey, "index.json")
}

// object is a JSON object that a test modifies.
type object = map[string]any

// edit returns a copy of the objects. change has modified the index and its entry of the first
// shard.
func edit(t testing.TB, o scantest.Objects, change func(index, shard object)) scantest.Objects {
	t.Helper()
	return o.Edit(t, "index.json", func(index object) { change(index, index["shards"].([]any)[0].(object)) })
}

func scan(o scantest.Objects) (map[string][]scantest.Sample, error) {
	return scantest.Scan(context.Background(), mds.Format(), format.Options{}, o)
}

func survey(t testing.TB, o scantest.Objects) *format.Dataset {
	t.Helper()
	d, err := mds.Format().Survey(context.Background(), o, format.Options{})
	if err != nil || d == nil {
		t.Fatalf("survey: got %v, %v, want a dataset", d, err)
	}
	return d
}

// build returns a dataset of one shard that this package has framed. Column "a" has variable
// length, and column "b" has four bytes.
func build(t testing.TB, samples ...string) scantest.Objects {
	t.Helper()
	constants := json.RawMessage(`{"column_encodings":["bytes","float32"],"column_names":["a","b"],"column_sizes":[null,4]}`)
	f, err := framing.Read("mds", constants)
	if err != nil {
		t.Fatal(err)
	}
	var lengths []uint32
	var body []byte
	for i, s := range samples {
		b := append([]byte{byte(len(s)), byte(len(s) >> 8), byte(len(s) >> 16), 0}, s...)
		b = fmt.Appendf(b, "%04d", i)
		lengths, body = append(lengths, uint32(len(b))), append(body, b...)
	}
	before, _, err := f.Frame(lengths)
	if err != nil {
		t.Fatal(err)
	}
	shard := append(before, body...)
	index, err := framing.MDSIndex(constants, []framing.MDSBatch{{Name: shardKey, Samples: len(samples), Bytes: int64(len(shard))}})
	if err != nil {
		t.Fatal(err)
	}
	return scantest.Objects{"index.json": index, shardKey: shard}
}
