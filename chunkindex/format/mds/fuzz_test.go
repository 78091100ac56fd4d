package mds_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/mds"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// FuzzScan scans an arbitrary shard with an index that has the right number of samples and bytes.
func FuzzScan(f *testing.F) {
	f.Add(golden(f)[shardKey])
	f.Add(build(f, "one", "", "three")[shardKey])
	f.Fuzz(func(t *testing.T, shard []byte) {
		for _, o := range []scantest.Objects{golden(t), build(t)} {
			o = edit(t, o, func(_, s object) {
				s["raw_data"].(object)["bytes"] = len(shard)
				if len(shard) >= 4 {
					s["samples"] = min(binary.LittleEndian.Uint32(shard), 1<<25)
				}
			})
			o[shardKey] = shard
			found, err := scan(o)
			if err != nil {
				scantest.Refused(t, err)
				continue
			}
			var sum int64
			for _, s := range found[shardKey] {
				sum += s.Length
			}
			if n := int64(len(shard)); sum > n {
				t.Errorf("got samples of %d bytes in a shard of %d", sum, n)
			}
		}
	})
}

// FuzzSurvey surveys an arbitrary index. A framing must accept the constants of an accepted index,
// and only existing shards may be scanned.
func FuzzSurvey(f *testing.F) {
	f.Add(golden(f)["index.json"])
	f.Add(build(f, "one")["index.json"])
	f.Add([]byte(`{"version": 2, "shards": [{"format": "json"}]}`))
	f.Fuzz(func(t *testing.T, index []byte) {
		o := golden(t)
		o["index.json"] = index
		d, err := mds.Format().Survey(context.Background(), o, format.Options{})
		if err != nil || d == nil {
			return
		}
		if _, err := framing.Read("mds", d.Framing); err != nil {
			t.Errorf("constants of a survey: %v", err)
		}
		_, err = scan(o)
		scantest.Refused(t, err)
	})
}
