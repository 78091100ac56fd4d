package build

import (
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestRun_ConstantsSurviveUnescaped checks that an index returns constants as the same bytes, so
// that a second run detects that nothing has changed. "<u2" contains a character that encoding/json
// escapes by default.
func TestRun_ConstantsSurviveUnescaped(t *testing.T) {
	store := memstore.New()
	for _, key := range []string{"a.npy", "b.npy"} {
		store.Set(key, append(framing.NPYHeader("<u2", 2, []uint64{3}), make([]byte, 12)...))
	}
	for _, c := range []struct {
		hints  format.Options
		reused int
	}{{format.Options{}, 0}, {format.Options{}, 2}, {format.Options{DType: "<u2"}, 2}} {
		rep, err := Run(t.Context(), store, "", Options{Hints: c.hints})
		if err != nil {
			t.Fatal(err)
		}
		if rep.ReusedShards != c.reused || rep.Samples != 4 {
			t.Errorf("%+v: got %+v, want %d shards reused", c.hints, rep, c.reused)
		}
	}
	// The same bytes divided into records of another size are different samples.
	store.Set("c.bin", make([]byte, 64))
	for _, size := range []int64{16, 32} {
		opt := Options{Hints: format.Options{RecordSize: size}, Match: "*.bin"}
		rep, err := Run(t.Context(), store, "", opt)
		if err != nil || rep.ReusedShards != 0 || rep.Samples != uint64(64/size) {
			t.Errorf("records of %d bytes: got %+v, %v, want %d samples, nothing reused", size, rep, err, 64/size)
		}
	}
}
