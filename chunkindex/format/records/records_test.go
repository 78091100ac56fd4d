package records_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/records"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func scan(o format.Options, objects scantest.Objects) (map[string][]scantest.Sample, error) {
	return scantest.Scan(context.Background(), records.Format(), o, objects)
}

// npy returns an .npy file with n samples. Each sample is an array of 2x3 two-byte numbers.
func npy(n int) []byte {
	b := framing.NPYHeader("<u2", uint64(n), []uint64{2, 3})
	for i := range 6 * n {
		b = binary.LittleEndian.AppendUint16(b, uint16(i))
	}
	return b
}

// literal returns an .npy file with this header text.
func literal(major byte, text string) []byte {
	b := append([]byte("\x93NUMPY"), major, 0)
	if major == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	}
	return append(b, text...)
}

func cifar(labels, n int) []byte {
	var b []byte
	for i := range n {
		for range labels {
			b = append(b, byte(i%10))
		}
		b = append(b, bytes.Repeat([]byte{byte(200 + i)}, 3072)...)
	}
	return b
}

func sample(key string, offset, length int64, parts ...scantest.Part) scantest.Sample {
	if parts == nil {
		parts = []scantest.Part{{Ext: "bin", Length: length}}
	}
	return scantest.Sample{Key: key, Offset: offset, Length: length, Parts: parts}
}

func TestShards(t *testing.T) {
	for name, c := range map[string]struct {
		o       format.Options
		objects scantest.Objects
		want    map[string][]scantest.Sample
	}{
		"flat files": {
			format.Options{RecordSize: 3},
			scantest.Objects{"a.bin": []byte("abcdef"), "d/b.raw": []byte("xyz"), "c.dat": nil, "README.md": []byte("x"), ".hidden.bin": []byte("x")},
			map[string][]scantest.Sample{"a.bin": {sample("a/000000000", 0, 3), sample("a/000000001", 3, 3)}, "c.dat": nil, "d/b.raw": {sample("d/b/000000000", 0, 3)}},
		},
		"arrays": {
			format.Options{},
			scantest.Objects{"a.npy": npy(2), "b.npy": npy(0), "labels.txt": []byte("x")},
			map[string][]scantest.Sample{"a.npy": {sample("a/000000000", 128, 12), sample("a/000000001", 140, 12)}, "b.npy": nil},
		},
		"arrays among others, asked for by name": {
			format.Options{Named: true, DType: "uint16"},
			scantest.Objects{"a.npy": npy(1), "a.jpg": []byte("x")},
			map[string][]scantest.Sample{"a.npy": {sample("a/000000000", 128, 12)}},
		},
		"a scalar is a sample": {
			format.Options{},
			scantest.Objects{"a.npy": append(framing.NPYHeader("<f8", 1, nil), 1, 2, 3, 4, 5, 6, 7, 8)},
			map[string][]scantest.Sample{"a.npy": {sample("a/000000000", 128, 8)}},
		},
		"CIFAR-10, without its test set": {
			format.Options{},
			scantest.Objects{"data_batch_1.bin": cifar(1, 2), "data_batch_2.bin": cifar(1, 1), "test_batch.bin": cifar(1, 1), "batches.meta.txt": nil},
			map[string][]scantest.Sample{
				"data_batch_1.bin": {
					sample("data_batch_1/000000000", 0, 3073, scantest.Part{Ext: "cls", Length: 1}, scantest.Part{Ext: "bin", Offset: 1, Length: 3072}),
					sample("data_batch_1/000000001", 3073, 3073, scantest.Part{Ext: "cls", Length: 1}, scantest.Part{Ext: "bin", Offset: 1, Length: 3072}),
				},
				"data_batch_2.bin": {sample("data_batch_2/000000000", 0, 3073, scantest.Part{Ext: "cls", Length: 1}, scantest.Part{Ext: "bin", Offset: 1, Length: 3072})},
			},
		},
		"CIFAR-100's test set": {
			format.Options{},
			scantest.Objects{"test.bin": cifar(2, 1), "fine_label_names.txt": nil},
			map[string][]scantest.Sample{"test.bin": {
				sample("test/000000000", 0, 3074, scantest.Part{Ext: "coarse", Length: 1}, scantest.Part{Ext: "cls", Offset: 1, Length: 1}, scantest.Part{Ext: "bin", Offset: 2, Length: 3072}),
			}},
		},
		"CIFAR's files as their owner sees them": {
			format.Options{RecordSize: 3073},
			scantest.Objects{"data_batch_1.bin": cifar(1, 1)},
			map[string][]scantest.Sample{"data_batch_1.bin": {sample("data_batch_1/000000000", 0, 3073)}},
		},
	} {
		t.Run(name, func(t *testing.T) { scantest.Finds(t, records.Format(), c.o, c.objects, c.want) })
	}
}

// TestNotRecords checks that files are left to other formats if neither the user nor their contents
// identify them as records.
func TestNotRecords(t *testing.T) {
	for name, objects := range map[string]scantest.Objects{
		"nothing":                      {},
		"flat files of unknown size":   {"a.bin": []byte("abc")},
		"an array for each picture":    {"a.npy": npy(1), "a.jpg": []byte("x")},
		"a label for each array":       {"a.npy": npy(1), "a.json": []byte("{}"), "README.md": nil},
		"tokens by CIFAR's name":       {"train.bin": bytes.Repeat([]byte{200}, 3074)},
		"tokens of CIFAR's first size": {"data_batch_1.bin": cifar(1, 1)[:3072]},
		"an empty file":                {"test.bin": nil},
	} {
		if got, err := scan(format.Options{}, objects); got != nil || err != nil {
			t.Errorf("%s: got %v, %v, want neither", name, got, err)
		}
	}
	if got, err := scan(format.Options{SequenceLength: 8}, scantest.Objects{"a.npy": npy(1)}); got != nil || err != nil {
		t.Errorf("tokens: got %v, %v, want neither", got, err)
	}
}

func TestRefusals(t *testing.T) {
	size, named := format.Options{RecordSize: 4}, format.Options{Named: true}
	spoiled := cifar(1, 3)
	spoiled[2*3073] = 10
	dict := func(descr, order, shape string) []byte {
		return append(literal(1, "{'descr': "+descr+", 'fortran_order': "+order+", 'shape': "+shape+"}\n"), "12345678"...)
	}
	for _, c := range []struct {
		o       format.Options
		objects scantest.Objects
		want    string
	}{
		{size, scantest.Objects{"a.bin": []byte("abcdefg")}, "object a.bin has 7 bytes, which is not a multiple of the record size, 4"},
		{size, scantest.Objects{"a.npy": npy(1)}, "object a.npy defines its own record size"},
		{size, scantest.Objects{"a.txt": npy(1)}, "no object's name ends in .bin"},
		{format.Options{RecordSize: -1}, scantest.Objects{"a.bin": nil}, "must be from 1 to"},
		{format.Options{RecordSize: 1 << 31}, scantest.Objects{"a.bin": nil}, "must be from 1 to"},
		{format.Options{RecordSize: 6, DType: "<f4"}, scantest.Objects{"a.bin": nil}, "a multiple of the 4 bytes of type <f4"},
		{format.Options{RecordSize: 4, DType: "f4"}, scantest.Objects{"a.bin": nil}, `must be a type in NumPy's notation, such as "uint16" or "<u2"`},
		{format.Options{RecordSize: 4, SequenceLength: 4}, scantest.Objects{"a.bin": nil}, "use either --record-size or --sequence-length"},
		{format.Options{Named: true, SequenceLength: 4}, scantest.Objects{"a.npy": npy(1)}, "use either"},
		{format.Options{Named: true}, scantest.Objects{"a.bin": nil}, "require --record-size"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'<u2'", "False", "(4,)")}, "a.npy is an array of one dimension, so each sample would be one number: --sequence-length '1024' makes"},
		{format.Options{DType: "<f4"}, scantest.Objects{"a.npy": npy(1)}, "object a.npy has elements of <u2, not <f4"},
		{format.Options{}, scantest.Objects{"a.npy": npy(1), "b.npy": dict("'<u2'", "False", "(1, 4)")}, "shard b.npy: at offset 0: samples have type and shape <u2 [4], but samples of a.npy have <u2 [2 3]"},
		{format.Options{}, scantest.Objects{"a.npy": npy(2)[:140]}, `"a/000000001" at offset 140: shard is truncated: 12 bytes are missing`},
		{format.Options{}, scantest.Objects{"a.npy": npy(2)[:151]}, "shard is truncated: 1 bytes are missing"},
		{format.Options{}, scantest.Objects{"a.npy": append(npy(2), 0)}, "more bytes follow the 2 samples"},
		{format.Options{}, scantest.Objects{"a.npy": []byte("\x93NUMPX")}, "object a.npy: does not begin with the magic bytes of an .npy file"},
		{format.Options{}, scantest.Objects{"a.npy": npy(1)[:9]}, "header is truncated"},
		{format.Options{}, scantest.Objects{"a.npy": npy(1)[:100]}, "header of 118 bytes is truncated"},
		{format.Options{}, scantest.Objects{"a.npy": literal(4, "{}\n")}, "version 4.0"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'|O'", "False", "(1,)")}, "Python objects"},
		{format.Options{}, scantest.Objects{"a.npy": dict("[('a', '<u2')]", "False", "(1,)")}, "structures of named fields"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'<f4'", "True", "(1, 2)")}, "Fortran order"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'<f4'", "False", "()")}, "array has no dimensions"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'<f4'", "False", "(2, 0)")}, "no bytes"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'<f8'", "False", "(1, 2147483648, 2147483648, 4294967296)")}, "longer than 1073741824"},
		{format.Options{}, scantest.Objects{"a.npy": dict("'<f8'", "False", "(9223372036854775807,)")}, "shard is truncated"},
		{format.Options{}, scantest.Objects{"data_batch_1.bin": cifar(1, 1), "data_batch_2.bin": cifar(1, 1)[1:]}, "object data_batch_2.bin is not a valid file of CIFAR-10: its 3072 bytes"},
		{format.Options{}, scantest.Objects{"data_batch_1.bin": spoiled}, "shard data_batch_1.bin: at offset 6146: label 10 of record 2 is not one of 10 classes"},
		{named, scantest.Objects{"train.bin": bytes.Repeat([]byte{20}, 3074)}, "label 20 of record 0 is not one of 20 classes"},
	} {
		scantest.Refuses(t, records.Format(), c.o, c.objects, c.want)
	}
	for dtype, o := range map[string]format.Options{"'<u2'": named, "'<f2'": {}} {
		if got, err := scan(o, scantest.Objects{"a.npy": dict(dtype, "False", "(4,)")}); err != nil || got == nil {
			t.Errorf("%s: got %v, %v, want a sample for each number", dtype, got, err)
		}
	}
}

// TestHeaders checks that a header may only be the literal that NumPy writes, with any spacing, and
// no other Python expression.
func TestHeaders(t *testing.T) {
	for text, want := range map[string]string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n":                        "<f4 [3 4]",
		"{\"shape\":(3 ,4,),\"fortran_order\":False ,'descr' : '|S5'}\n":                          "|S5 [3 4]",
		"{'descr': '<u1', 'fortran_order': False, 'shape': (7,)}\n":                               "|u1 [7]",
		"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': ()}\n":                             "<M8[ns] []",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}\n":                                "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}\n":                              "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (03,)}\n":                              "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}\n":                              "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 10L)}\n":                          "<f4 [3 10]",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3l,)}\n":                              "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1 if 1 else 2,)}":                     "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}\n":            "!too large",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (" + strings.Repeat("1,", 40) + ")}\n": "!too many",
		"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}\n":                                   "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (3,)}\n":                              "!not a dictionary",
		"{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}\n":                                "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False}\n":                                              "!not a dictionary",
		"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}\n":                 "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}\n":                       "!not a dictionary",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + {}\n":                          "!not a dictionary",
		"{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (3,)}\n":                           "!not a dictionary",
		"{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}\n":                                "!not a dictionary",
		"{'descr': '<f3', 'fortran_order': False, 'shape': (3,)}\n":                               "!a type in NumPy's notation",
		"{'descr': '<M8', 'fortran_order': False, 'shape': (3,)}\n":                               "!want one as|a type in NumPy's notation",
		"{'descr': '|f4', 'fortran_order': False, 'shape': (3,)}\n":                               "!byte order",
		"{descr: '<f4', 'fortran_order': False, 'shape': (3,)}\n":                                 "!not a dictionary",
		"{'descr' '<f4', 'fortran_order': False, 'shape': (3,)}\n":                                "!not a dictionary",
		"dict(descr='<f4')\n": "!not a dictionary",
		"\n":                  "!not a dictionary",
	} {
		for _, version := range []byte{1, 2, 3} {
			a, err := framing.ReadNPY(literal(version, text))
			got := fmt.Sprintf("%s %d", a.DType, a.Shape)
			refusals, refused := strings.CutPrefix(want, "!")
			switch {
			case refused && err == nil:
				t.Errorf("version %d of %q: got %s, want an error", version, text, got)
			case refused && !matches(err.Error(), refusals):
				t.Errorf("version %d of %q: got %v, want %s", version, text, err, refusals)
			case !refused && (err != nil || got != want):
				t.Errorf("version %d of %q: got %s, %v, want %s", version, text, got, err, want)
			}
		}
	}
}

func matches(text, any string) bool {
	for _, s := range strings.Split(any, "|") {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// TestReadNPY_FalseLengthAllocatesNothing checks that a header with a false length allocates no
// memory for that length.
func TestReadNPY_FalseLengthAllocatesNothing(t *testing.T) {
	b := literal(2, "{}\n")
	binary.LittleEndian.PutUint32(b[8:], 1<<31)
	if n := testing.AllocsPerRun(10, func() {
		if _, err := framing.ReadNPY(b); err == nil {
			t.Error("got no error")
		}
	}); n > 20 {
		t.Errorf("got %v allocations", n)
	}
}

func TestFaultOfTheStore(t *testing.T) {
	scantest.Faults(t, records.Format(), format.Options{}, "a.npy", npy(3))
	scantest.Faults(t, records.Format(), format.Options{RecordSize: 4}, "a.bin", []byte("12345678"))
	scantest.Faults(t, records.Format(), format.Options{}, "test.bin", cifar(2, 1))
}
