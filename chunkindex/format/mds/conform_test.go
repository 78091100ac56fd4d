package mds_test

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format/mds"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func TestConforms(t *testing.T) {
	for name, objects := range map[string]scantest.Objects{"golden": golden(t), "built": build(t, "one", "", "three")} {
		t.Run(name, func(t *testing.T) {
			scantest.Conforms(t, scantest.Dataset{Format: mds.Format(), Objects: objects, AsShard: func(batch []byte, samples int) scantest.Objects {
				return edit(t, objects, func(index, s object) {
					index["shards"] = []any{s}
					s["samples"] = samples
					s["raw_data"] = object{"basename": shardKey, "bytes": len(batch), "hashes": object{}}
				}).With(shardKey, batch)
			}})
		})
	}
}
