package tokens_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func scan(o format.Options, objects scantest.Objects) (map[string][]scantest.Sample, error) {
	return scantest.Scan(context.Background(), tokens.Format(), o, objects)
}

// index returns an .idx for two-byte tokens. The sequences have these lengths, and each document
// has one sequence.
func index(lengths ...int) []byte {
	le := binary.LittleEndian
	b := append([]byte("MMIDIDX\x00\x00"), 1, 0, 0, 0, 0, 0, 0, 0, 8)
	b = le.AppendUint64(b, uint64(len(lengths)))
	b = le.AppendUint64(b, uint64(len(lengths)+1))
	for _, n := range lengths {
		b = le.AppendUint32(b, uint32(n))
	}
	at := 0
	for _, n := range lengths {
		b = le.AppendUint64(b, uint64(2*at))
		at += n
	}
	for i := range len(lengths) + 1 {
		b = le.AppendUint64(b, uint64(i))
	}
	return b
}

// text returns n tokens of size bytes.
func text(n, size int) []byte {
	b := make([]byte, 0, n*size)
	for i := range n {
		b = append(b, byte(i), byte(i>>8))
		b = append(b, make([]byte, size-2)...)
	}
	return b
}

// llmc returns a file of llm.c with this header and body.
func llmc(magic, version, n uint32, body []byte) []byte {
	b := make([]byte, 1024)
	for i, v := range []uint32{magic, version, n} {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
	return append(b, body...)
}

func npy(dtype string, n int, body []byte) []byte {
	return append(framing.NPYHeader(dtype, uint64(n), nil), body...)
}

func sample(key string, offset, length int64) scantest.Sample {
	return scantest.Sample{Key: key, Offset: offset, Length: length, Parts: []scantest.Part{{Ext: "bin", Length: length}}}
}

func TestWindows(t *testing.T) {
	for name, c := range map[string]struct {
		o       format.Options
		objects scantest.Objects
		want    map[string][]scantest.Sample
	}{
		"Megatron's": {
			format.Options{SequenceLength: 4},
			scantest.Objects{"a.bin": text(10, 2), "a.idx": index(3, 0, 7), "b.bin": text(4, 2), "b.idx": index(4), "c.bin": nil, "c.idx": index()},
			map[string][]scantest.Sample{"a.bin": {sample("a/000000000", 0, 10), sample("a/000000001", 8, 10)}, "b.bin": nil, "c.bin": nil},
		},
		"flat, of exactly two windows": {
			format.Options{SequenceLength: 4, DType: "uint16"},
			scantest.Objects{"train.bin": text(9, 2), "meta.pkl": nil, ".x.bin": []byte("x")},
			map[string][]scantest.Sample{"train.bin": {sample("train/000000000", 0, 10), sample("train/000000001", 8, 10)}},
		},
		"flat, of four bytes": {
			format.Options{SequenceLength: 1, DType: "<u4"},
			scantest.Objects{"d/x.tokens": text(3, 4)},
			map[string][]scantest.Sample{"d/x.tokens": {sample("d/x/000000000", 0, 8), sample("d/x/000000001", 4, 8)}},
		},
		"an array": {
			format.Options{SequenceLength: 2},
			scantest.Objects{"a.npy": npy("<i4", 6, text(6, 4))},
			map[string][]scantest.Sample{"a.npy": {sample("a/000000000", 128, 12), sample("a/000000001", 136, 12)}},
		},
		"llm.c's": {
			format.Options{SequenceLength: 2},
			scantest.Objects{"gpt2.bin": llmc(20240520, 1, 3, text(3, 2)), "short.bin": llmc(20240520, 1, 1, text(1, 2))},
			map[string][]scantest.Sample{"gpt2.bin": {sample("gpt2/000000000", 1024, 6)}, "short.bin": nil},
		},
		"llm.c's of four bytes": {
			format.Options{SequenceLength: 2, DType: "<u4"},
			scantest.Objects{"llama3.bin": llmc(20240801, 7, 3, text(3, 4))},
			map[string][]scantest.Sample{"llama3.bin": {sample("llama3/000000000", 1024, 12)}},
		},
		"nothing said":            {format.Options{}, scantest.Objects{"a.bin": text(4, 2), "b.npy": npy("<u2", 0, nil), "c.idx": []byte("x")}, nil},
		"an .idx of another kind": {format.Options{}, scantest.Objects{"a.bin": text(4, 2), "a.idx": []byte("x")}, nil},
		"records, it was said":    {format.Options{RecordSize: 2}, scantest.Objects{"a.bin": text(4, 2), "a.idx": index(4)}, nil},
	} {
		t.Run(name, func(t *testing.T) { scantest.Finds(t, tokens.Format(), c.o, c.objects, c.want) })
	}
}

// TestLeftOut checks that LeftOut counts the tokens that fill no window, if a shard records its
// number of tokens.
func TestLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		o       format.Options
		objects scantest.Objects
		windows uint64
		want    int64
	}{
		"Megatron's":                   {format.Options{SequenceLength: 4}, scantest.Objects{"a.bin": text(12, 2), "a.idx": index(3, 9)}, 2, 3},
		"shorter than a window":        {format.Options{SequenceLength: 4}, scantest.Objects{"a.bin": text(4, 2), "a.idx": index(4)}, 0, 4},
		"flat, of exactly two windows": {format.Options{SequenceLength: 4, DType: "<u2"}, scantest.Objects{"a.bin": text(9, 2)}, 2, 0},
		"llm.c's":                      {format.Options{SequenceLength: 2}, scantest.Objects{"a.bin": llmc(20240520, 1, 4, text(4, 2))}, 1, 1},
		"an array":                     {format.Options{SequenceLength: 2}, scantest.Objects{"a.npy": npy("<i4", 6, text(6, 4))}, 2, 1},
		"compressed, and it is unsaid": {format.Options{SequenceLength: 4, DType: "<u2"}, scantest.Objects{"a.bin.gz": []byte("as many as there are")}, 1, 0},
	} {
		d, err := tokens.Format().Survey(t.Context(), c.objects, c.o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := d.LeftOut(0, c.windows); got != c.want {
			t.Errorf("%s: got %d tokens left out, want %d", name, got, c.want)
		}
	}
}

func changed(b []byte, at int, v byte) []byte {
	b = bytes.Clone(b)
	b[at] = v
	return b
}

func TestRefusals(t *testing.T) {
	four, flat := format.Options{SequenceLength: 4}, format.Options{SequenceLength: 4, DType: "<u2"}
	pair := func(idx []byte) scantest.Objects { return scantest.Objects{"a.bin": text(10, 2), "a.idx": idx} }
	good := index(3, 7) // offsets of the tables: lengths at 34, offsets at 42, documents at 58
	for _, c := range []struct {
		o       format.Options
		objects scantest.Objects
		want    string
	}{
		{format.Options{}, pair(good), "object a.idx, an index of Megatron, does not define the number of tokens per sample: --sequence-length '1024'"},
		{format.Options{}, scantest.Objects{"a.bin": llmc(20240520, 1, 0, nil)}, "object a.bin, a token file of llm.c, does not define the number of tokens per sample: --sequence-length '1024'"},
		{format.Options{Named: true, DType: "<u2"}, scantest.Objects{"a.bin": nil}, "format tokens does not define the number of tokens per sample"},
		{format.Options{SequenceLength: 4, RecordSize: 4}, scantest.Objects{"a.bin": nil}, "use either --sequence-length or --record-size"},
		{format.Options{SequenceLength: -1, DType: "<u2"}, scantest.Objects{"a.bin": nil}, "sequence length -1: must be from 1 to 33554431"},
		{format.Options{SequenceLength: 1 << 25, DType: "<u2"}, scantest.Objects{"a.bin": nil}, "must be from 1 to 33554431"},
		{format.Options{SequenceLength: math.MaxInt64, DType: "<u8"}, scantest.Objects{"a.bin": nil}, "must be from 1 to 8388607"},
		{four, scantest.Objects{"a.jpg": nil}, "no object's name ends in .bin"},
		{four, scantest.Objects{"a.bin": text(4, 2)}, "object a.bin does not define the type of its tokens: --dtype 'uint16'"},
		{format.Options{SequenceLength: 4, DType: "<f4"}, scantest.Objects{"a.bin": text(4, 2)}, "dtype <f4: tokens must be integers"},
		{format.Options{SequenceLength: 4, DType: "word"}, scantest.Objects{"a.bin": text(4, 2)}, "must be a type in NumPy's notation"},
		{flat, scantest.Objects{"a.bin": text(4, 2)[1:]}, "object a.bin: its 7 bytes are not a multiple of 2, the size of type <u2"},
		{flat, scantest.Objects{"a.bin": text(4, 2), "a.idx": index(4), "b.bin": nil}, "objects a.bin and b.bin have different layouts"},
		{flat, scantest.Objects{"a.bin": nil, "b.npy": nil}, "objects a.bin and b.npy have different layouts"},
		{four, scantest.Objects{"a.npy": npy("<u2", 9, text(9, 2)), "b.npy": npy("<u4", 1, text(1, 4))}, "object a.npy has tokens of type <u2, but object b.npy has tokens of type <u4"},
		{four, scantest.Objects{"a.npy": npy("<u2", 9, text(9, 2)[1:])}, "shard a.npy: at offset 145: the last 1 bytes are not a whole token of type <u2"},
		{four, scantest.Objects{"a.npy": npy("<u2", 9, text(8, 2))}, "at offset 144: 1 of the 9 tokens are missing"},
		{four, scantest.Objects{"a.npy": npy("<u2", 9, text(10, 2))}, "more bytes follow the 9 tokens"},
		{four, scantest.Objects{"a.npy": append(framing.NPYHeader("<u2", 1<<62, nil), 0, 0)}, "the header of the array declares 4611686018427387904 tokens"},
		{four, scantest.Objects{"a.npy": append(framing.NPYHeader("<u2", 2, []uint64{2}), text(4, 2)...)}, "array has 2 dimensions"},
		{four, scantest.Objects{"a.npy": npy("<f4", 2, text(2, 4))}, "elements have type <f4"},
		{four, scantest.Objects{"a.npy": []byte("x")}, "object a.npy: does not begin with the magic bytes of an .npy file"},
		{format.Options{SequenceLength: 4, DType: "<u4"}, scantest.Objects{"a.npy": npy("<u2", 9, text(9, 2))}, "tokens have type <u2, not <u4"},
		{format.Options{SequenceLength: 4, DType: "<u4"}, scantest.Objects{"a.bin": llmc(20240520, 1, 1, text(1, 2))}, "tokens have type <u2, not <u4"},
		{four, scantest.Objects{"a.bin": llmc(20240520, 1, 4, text(3, 2))}, "6 bytes follow the header, but the 4 tokens of the header have 8"},
		{four, scantest.Objects{"a.bin.gz": llmc(20240520, 1, 4, text(3, 2))}, "1 of the 4 tokens are missing"},
		{four, scantest.Objects{"a.bin.gz": text(10, 2), "a.idx": good}, "object a.bin.gz: it is compressed"},
		{four, scantest.Objects{"a.bin": text(11, 2), "a.idx": good}, "object a.bin: it has 22 bytes, but the 10 tokens in a.idx have 20"},
		{four, scantest.Objects{"a.bin": text(9, 2), "a.idx": good}, "it has 18 bytes, but the 10 tokens"},
		{four, pair([]byte("MMIDIDY")), "a.idx: it does not begin"},
		{four, pair(good[:20]), "a.idx: header is truncated"},
		{four, pair(changed(good, 9, 2)), "version 2 is unknown"},
		{four, pair(changed(good, 17, 7)), "type code 7 is not an integer type"},
		{four, pair(changed(good, 17, 0)), "type code 0 is not"},
		{four, pair(changed(good, 17, 200)), "type code 200 is not"},
		{four, pair(good[:len(good)-1]), "47 bytes of tables do not match 2 sequences and 3 document entries"},
		{four, pair(changed(good, 25, 0xff)), "bytes of tables do not match 18374686479671623682 sequences"},
		{four, pair(changed(good, 33, 0xff)), "bytes of tables do not match 2 sequences"},
		{four, pair(changed(good, 37, 0xff)), "sequence 0 has -16777213 tokens"},
		{four, pair(changed(good, 42, 2)), "sequence 0 begins at byte 2, not at 0"},
		{four, pair(changed(good, 50, 8)), "sequence 1 begins at byte 8, not at 6"},
		{four, pair(changed(good, 57, 0xff)), "sequence 1 begins at byte -"},
		{four, pair(changed(good, 58, 1)), "document 0 begins at sequence 1"},
		{four, pair(changed(good, 66, 3)), "document 1 begins at sequence 3 of 2"},
		{four, pair(changed(good, 74, 0)), "document 2 begins at sequence 0"},
		{four, pair(changed(good, 74, 1)), "the last document ends at sequence 1, but there are 2 sequences"},
	} {
		scantest.Refuses(t, tokens.Format(), c.o, c.objects, c.want)
	}
}

func TestFraming(t *testing.T) {
	d, err := tokens.Format().Survey(t.Context(), scantest.Objects{"a.bin": text(10, 2), "a.idx": index(10)}, format.Options{SequenceLength: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(d.Framing), `{"dtype":"<u2","shape":[5]}`; got != want || d.Overlap != 2 || len(d.Beside) != 1 {
		t.Errorf("got %s, %d bytes shared, %d descriptive objects, want %s, 2, 1", got, d.Overlap, len(d.Beside), want)
	}
	f, err := framing.Read("tokens", d.Framing)
	if err != nil {
		t.Fatal(err)
	}
	a, ok := f.(format.Array)
	if !ok {
		t.Fatal("framing is no format.Array")
	}
	if dtype, shape := a.Item(); dtype != "<u2" || !cmp.Equal(shape, []uint64{5}) {
		t.Errorf("got %s %d, want <u2 [5]", dtype, shape)
	}
	if _, err := framing.Read("tokens", nil); err == nil {
		t.Error("no constants: got no error")
	}
}

func TestFaultOfTheStore(t *testing.T) {
	scantest.Faults(t, tokens.Format(), format.Options{SequenceLength: 2}, "a.npy", npy("<u2", 9, text(9, 2)))
}

// TestScan_LongWindowAllocatesNothing checks that a long window allocates no memory for missing
// tokens.
func TestScan_LongWindowAllocatesNothing(t *testing.T) {
	d, err := tokens.Format().Survey(t.Context(), scantest.Objects{"a.bin": text(9, 2)}, format.Options{SequenceLength: 1 << 24, DType: "<u2"})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := d.Scan(t.Context(), 0, bytes.NewReader(text(9, 2)), scantest.Nothing{}); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("got %d bytes for a window of 32 MiB", n)
	}
}

// FuzzScanTokens checks that windows are contiguous and that each begins with the last token of the
// preceding window. Fewer tokens than a window may remain.
func FuzzScanTokens(f *testing.F) {
	f.Add(text(10, 2), []byte{}, int64(4), uint8(0))
	f.Add(text(10, 2), index(3, 7), int64(4), uint8(1))
	f.Add(npy("<u2", 9, text(9, 2)), []byte{}, int64(3), uint8(2))
	f.Add(llmc(20240520, 1, 3, text(3, 2)), []byte{}, int64(2), uint8(0))
	f.Fuzz(func(t *testing.T, b, idx []byte, length int64, kind uint8) {
		o, key := format.Options{SequenceLength: length}, "a.bin"
		objects := scantest.Objects{}
		switch kind % 3 {
		case 0:
			o.DType = "<u2"
		case 1:
			objects["a.idx"] = idx
		case 2:
			key = "a.npy"
		}
		objects[key] = b
		d, err := tokens.Format().Survey(t.Context(), objects, o)
		if err != nil || d == nil {
			return
		}
		found, err := scan(o, objects)
		scantest.Refused(t, err)
		if err != nil {
			return
		}
		for i, s := range found[key] {
			if i > 0 && s.Offset != found[key][i-1].Offset+found[key][i-1].Length-d.Overlap || s.Length != d.Overlap*(length+1) {
				t.Fatalf("window %d of %d tokens: got %+v after %+v", i, length, s, found[key][max(i, 1)-1])
			}
		}
		if n := len(found[key]); n > 0 {
			if left := int64(len(b)) - found[key][n-1].Offset - found[key][n-1].Length; left >= d.Overlap*length {
				t.Fatalf("%d bytes are left out, as many as a window of %d tokens has", left, length)
			}
		}
	})
}
