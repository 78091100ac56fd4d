package litdata_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/litdata"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// tokens returns a dataset whose chunks contain texts of these lengths. The tokens have two bytes
// and count up from 0.
func tokens(t testing.TB, chunks ...[]int) scantest.Objects {
	t.Helper()
	o, token := scantest.Objects{}, uint16(0)
	var listed []object
	for i, texts := range chunks {
		at := uint32(8 + 4*len(texts))
		b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(len(texts))), at)
		var body []byte
		for _, n := range texts {
			at += 2 * uint32(n)
			b = binary.LittleEndian.AppendUint32(b, at)
			for range n {
				body, token = binary.LittleEndian.AppendUint16(body, token), token+1
			}
		}
		name := fmt.Sprintf("chunk-0-%d.bin", i)
		o[name] = append(b, body...)
		listed = append(listed, object{"filename": name, "chunk_bytes": len(o[name]), "chunk_size": len(texts), "dim": len(body) / 2})
	}
	config := object{"data_format": []string{"no_header_tensor:13"}, "data_spec": "[]", "item_loader": "TokensLoader", "compression": nil}
	var err error
	if o["index.json"], err = json.Marshal(object{"chunks": listed, "config": config}); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestScan_BlocksOfTokens checks that blocks are cut across texts but within chunks, as
// TokensLoader cuts them, and that a chunk's remaining tokens are dropped.
func TestScan_BlocksOfTokens(t *testing.T) {
	o := tokens(t, []int{3, 0, 6, 2}, []int{2}, []int{4}, []int{0})
	found, err := scantest.Scan(context.Background(), litdata.Format(), format.Options{SequenceLength: 3}, o)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]uint16{}
	for shard, samples := range found {
		for _, s := range samples {
			if d := cmp.Diff([]scantest.Part{{Ext: "0", Length: 8}}, s.Parts); d != "" {
				t.Errorf("%s: %s", s.Key, d)
			}
			for b := o[shard][s.Offset : s.Offset+s.Length]; len(b) > 0; b = b[2:] {
				got[s.Key] = append(got[s.Key], binary.LittleEndian.Uint16(b))
			}
		}
	}
	want := map[string][]uint16{
		"chunk-0-0/000000000": {0, 1, 2, 3}, "chunk-0-0/000000001": {4, 5, 6, 7}, "chunk-0-2/000000000": {13, 14, 15, 16},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestLeftOut_CountsTokens checks that LeftOut counts the remaining tokens of chunks, and that it
// is nil for other items.
func TestLeftOut_CountsTokens(t *testing.T) {
	o := tokens(t, []int{3, 0, 6, 2}, []int{2}, []int{4}, []int{0})
	d, err := litdata.Format().Survey(t.Context(), o, format.Options{SequenceLength: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		blocks uint64
		want   int64
	}{{2, 3}, {0, 2}, {1, 0}, {0, 0}} {
		if got := d.LeftOut(i, c.blocks); got != c.want {
			t.Errorf("%s: got %d tokens left out, want %d", d.Shards[i].Key, got, c.want)
		}
	}
}

// TestSurvey_BlockLength checks that the constants contain the block length, and that a stored scan
// is valid for one length only.
func TestSurvey_BlockLength(t *testing.T) {
	o := tokens(t, []int{8})
	survey := func(n int64) *format.Dataset {
		d, err := litdata.Format().Survey(context.Background(), o, format.Options{SequenceLength: n})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := framing.Read("litdata", d.Framing); err != nil {
			t.Error(err)
		}
		return d
	}
	if got, want := string(survey(3).Framing), `{"data_format":["no_header_tensor:13"],"data_spec":"[]","block_size":4}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if a, b := survey(3).Shards[0].Says, survey(2).Shards[0].Says; a == b {
		t.Errorf("two lengths: got %s of both", a)
	}
}

func TestRefusedTokens(t *testing.T) {
	for want, change := range map[string]func(config, chunk object){
		"8 tokens cannot have 17 bytes": func(_, k object) { k["chunk_bytes"] = 29 },
		"0 tokens cannot have 16 bytes": func(_, k object) { k["dim"] = 0 },
		"8 tokens cannot have -8 bytes": func(_, k object) { k["chunk_size"] = 3 + 4; k["chunk_bytes"] = 28 },
		"tokens of 17 bytes":            func(_, k object) { k["chunk_bytes"] = 8*17 + 12 },
		"or dim is invalid":             func(_, k object) { k["dim"] = nil },
		"chunk_size or dim is":          func(_, k object) { k["dim"] = -1 },
		"chunk_bytes, chunk_size or":    func(_, k object) { k["chunk_size"] = 1 << 62 },
	} {
		o := edit(t, tokens(t, []int{8}), func(_, config, k object) { change(config, k) })
		_, err := litdata.Format().Survey(context.Background(), o, format.Options{SequenceLength: 3})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if _, err := litdata.Format().Survey(context.Background(), golden(t), format.Options{SequenceLength: 3}); err == nil || !strings.Contains(err.Error(), "does not apply to the items") {
		t.Errorf("length of a sample of other items: got %v, want an error", err)
	}
	two := tokens(t, []int{8}, []int{8})
	other := edit(t, two, func(_, _, k object) { k["chunk_bytes"], k["dim"] = 28, 4 })
	if _, err := litdata.Format().Survey(context.Background(), other, format.Options{SequenceLength: 3}); err == nil || !strings.Contains(err.Error(), `"chunk-0-1.bin": 8 tokens cannot`) {
		t.Errorf("tokens of another length in another chunk: got %v, want an error with its name", err)
	}
	for _, n := range []int64{format.MaxSample / 2, 1<<63 - 1} {
		if _, err := litdata.Format().Survey(context.Background(), two, format.Options{SequenceLength: n}); err == nil || !strings.Contains(err.Error(), "exceeds the limit of") {
			t.Errorf("%d tokens: got %v, want an error", n, err)
		}
	}
}
