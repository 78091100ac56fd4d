package build

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// wide returns an MDS dataset with one sample that has this number of columns, of four bytes each.
func wide(t *testing.T, columns, name int) *memstore.Store {
	t.Helper()
	says := struct {
		Encodings []string `json:"column_encodings"`
		Names     []string `json:"column_names"`
		Sizes     []int    `json:"column_sizes"`
	}{}
	for i := range columns {
		says.Encodings, says.Sizes = append(says.Encodings, "float32"), append(says.Sizes, 4)
		says.Names = append(says.Names, fmt.Sprintf("%06d%s", i, strings.Repeat("x", name-6)))
	}
	constants, err := json.Marshal(says)
	if err != nil {
		t.Fatal(err)
	}
	f, err := framing.Read("mds", constants)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for i := range columns {
		body = binary.LittleEndian.AppendUint32(body, uint32(i))
	}
	shard, _, err := f.Frame([]uint32{uint32(len(body))})
	if err != nil {
		t.Fatal(err)
	}
	shard = append(shard, body...)
	index, err := framing.MDSIndex(constants, []framing.MDSBatch{{Name: "shard.00000.mds", Samples: 1, Bytes: int64(len(shard))}})
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	store.Set("index.json", index)
	store.Set("shard.00000.mds", shard)
	return store
}

// TestRun_WideDatasets checks that wide datasets are indexed. If the constants of a dataset exceed
// the limit of an index, the dataset must be rejected before any shard is read.
func TestRun_WideDatasets(t *testing.T) {
	store := wide(t, 1500, 44)
	if rep, err := Run(t.Context(), store, "", Options{}); err != nil || rep.Samples != 1 {
		t.Fatalf("got %+v, %v, want one sample", rep, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	parts, err := x.Parts(t.Context(), 0)
	if err != nil || len(parts.Append(nil, 0)) != 1500 {
		t.Errorf("got %d parts, %v, want 1500", len(parts.Append(nil, 0)), err)
	}
	rep, err := Run(t.Context(), wide(t, 40_000, 100), "", Options{})
	if err == nil || !strings.Contains(err.Error(), "bytes, more than the limit of 4194304: write the dataset with fewer columns") || rep.ReadBytes != 0 {
		t.Errorf("got %+v, %v, want a refusal by the limit, and nothing read", rep, err)
	}
}
