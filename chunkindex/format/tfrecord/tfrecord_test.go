package tfrecord_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/tfrecord"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// file returns a TFRecord file of these records.
func file(records ...string) []byte {
	var b []byte
	for _, r := range records {
		b = append(b, head(uint64(len(r)))...)
		b = append(b, r...)
		b = binary.LittleEndian.AppendUint32(b, masked([]byte(r)))
	}
	return b
}

// head returns the bytes before the data of a record of n bytes.
func head(n uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, n)
	return binary.LittleEndian.AppendUint32(b, masked(b))
}

func scan(o format.Options, objects scantest.Objects) (map[string][]scantest.Sample, error) {
	return scantest.Scan(context.Background(), tfrecord.Format(), o, objects)
}

func sample(key string, offset, length int64) scantest.Sample {
	return scantest.Sample{Key: key, Offset: offset, Length: length, Parts: []scantest.Part{{Ext: "tfrecord", Offset: 12, Length: length - 16}}}
}

// TestKnownRecord scans a record that PyPI's tfrecord package has written.
func TestKnownRecord(t *testing.T) {
	want := "\x05\x00\x00\x00\x00\x00\x00\x00\xea\xb2\x04\x3ehello\xbb\x1f\x1c\x19"
	got := file("hello")
	if len(got) != len(want) {
		t.Fatalf("got %d bytes, want %d", len(got), len(want))
	}
	samples, err := scan(format.Options{}, scantest.Objects{"a.tfrecord": []byte(want)})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string][]scantest.Sample{"a.tfrecord": {sample("a/000000000", 0, 21)}}, samples); d != "" {
		t.Error(d)
	}
}

func TestShards(t *testing.T) {
	big := strings.Repeat("x", 300<<10)
	for name, c := range map[string]struct {
		named   bool
		objects scantest.Objects
		want    map[string][]scantest.Sample
	}{
		"names": {
			false,
			scantest.Objects{
				"a.tfrecord": file("one", ""), "b.tfrecords": file(), "d/c.tfr": file(big, "x"),
				"train.tfrecord-00003-of-00010": file("4"), "README": nil, ".a.tfrecord": []byte("x"), "x.tfrecord.index": nil,
			},
			map[string][]scantest.Sample{
				"a.tfrecord": {sample("a/000000000", 0, 19), sample("a/000000001", 19, 16)}, "b.tfrecords": nil,
				"d/c.tfr":                       {sample("d/c/000000000", 0, 16+300<<10), sample("d/c/000000001", 16+300<<10, 17)},
				"train.tfrecord-00003-of-00010": {sample("train-00003-of-00010/000000000", 0, 17)},
			},
		},
		"by content, asked for by name": {
			true,
			scantest.Objects{"train-00000-of-00001": file("one"), "b.records": file("two"), "empty": nil, "README": []byte("a text of more than twelve bytes"), "features.json": []byte("{}")},
			map[string][]scantest.Sample{
				"train-00000-of-00001": {sample("train-00000-of-00001/000000000", 0, 19)}, "b.records": {sample("b.records/000000000", 0, 19)}, "empty": nil,
			},
		},
		"by content": {
			false,
			scantest.Objects{"train-00000-of-00002": file("one"), "train-00001-of-00002": file(), "b.dat": file("no name without a suffix")},
			map[string][]scantest.Sample{"train-00000-of-00002": {sample("train-00000-of-00002/000000000", 0, 19)}, "train-00001-of-00002": nil},
		},
		"others":            {false, scantest.Objects{"part-00000": []byte("a text of more than twelve bytes")}, nil},
		"names in capitals": {false, scantest.Objects{"A.TFRecord": file("one")}, map[string][]scantest.Sample{"A.TFRecord": {sample("A/000000000", 0, 19)}}},
	} {
		t.Run(name, func(t *testing.T) {
			scantest.Finds(t, tfrecord.Format(), format.Options{Named: c.named}, c.objects, c.want)
		})
	}
}

// TestScan_VerifiesEveryByte checks that a change of any byte is rejected with the number of its
// record.
func TestScan_VerifiesEveryByte(t *testing.T) {
	b := file("one", "two!", "")
	for i := range b {
		b[i] ^= 0x40
		_, err := scan(format.Options{}, scantest.Objects{"a.tfrecord": b})
		var where *format.Error
		if want := "checksum of"; i >= 12 && (!errors.As(err, &where) || !strings.Contains(err.Error(), want)) || err == nil {
			t.Errorf("byte %d: got %v, want %q", i, err, want)
		}
		b[i] ^= 0x40
	}
	if _, err := scan(format.Options{}, scantest.Objects{"a.tfrecord": b}); err != nil {
		t.Fatal(err)
	}
}

// TestTruncated checks that a truncated file is rejected, unless it ends between records.
func TestTruncated(t *testing.T) {
	b := file("one", "two!", "")
	clean := map[int]int{0: 0, 19: 1, 39: 2}
	for n := range b {
		got, err := scan(format.Options{}, scantest.Objects{"a.tfrecord": b[:n]})
		if want, ok := clean[n]; ok && (err != nil || len(got["a.tfrecord"]) != want) {
			t.Errorf("cut at %d: got %v, %v, want %d samples", n, got, err, want)
		} else if !ok && err == nil {
			t.Errorf("cut at %d: got no error", n)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		named   bool
		objects scantest.Objects
		want    string
	}{
		{false, scantest.Objects{"a.tfrecord": []byte("not a record at all")}, "object a.tfrecord does not begin with a TFRecord"},
		{false, scantest.Objects{"a.tfrecord": nil, "b.tfrecord": []byte("\x1f\x8b123456789012")}, "object b.tfrecord does not begin with a TFRecord: it is compressed by gzip"},
		{false, scantest.Objects{"a.tfrecord": file("x")[:5]}, "object a.tfrecord does not begin"},
		{true, scantest.Objects{"a": []byte("not a record at all")}, "object a does not begin with a TFRecord: restore the object"},
		{true, scantest.Objects{"a": file("one"), "b": damaged(file("two"))}, "object b does not begin with a TFRecord"},
		{false, scantest.Objects{"a-00000": file("one"), "a-00001": damaged(file("two"))}, "object a-00001 does not begin with a TFRecord"},
		{false, scantest.Objects{"a-00000": damaged(file("one")), "a-00001": file("two")}, "object a-00000 does not begin with a TFRecord"},
		{false, scantest.Objects{"a.tfrecord": append(file("x"), head(1<<30)...)}, "shard a.tfrecord: at offset 17: record 1: 1073741824 bytes exceed the limit of a sample"},
		{false, scantest.Objects{"a.tfrecord": append(file("x"), head(math.MaxUint64)...)}, "record 1: 18446744073709551615 bytes"},
		{false, scantest.Objects{"a.tfrecord": append(file("x"), head(1<<29)...)}, "shard is truncated: 536870912 bytes are missing"},
	} {
		scantest.Refuses(t, tfrecord.Format(), format.Options{Named: c.named}, c.objects, c.want)
	}
}

// damaged flips one bit in the length of the first record.
func damaged(b []byte) []byte {
	b[0] ^= 1
	return b
}

func TestFraming(t *testing.T) {
	f, err := framing.Read("tfrecord", nil)
	if err != nil {
		t.Fatal(err)
	}
	if before, after, err := f.Frame([]uint32{17}); before != nil || after != nil || err != nil {
		t.Errorf("got %q, %q, %v, want nothing", before, after, err)
	}
	if _, err := framing.Read("tfrecord", []byte("{}")); err == nil {
		t.Error("constants: got no error")
	}
}

func TestFaultOfTheStore(t *testing.T) {
	scantest.Faults(t, tfrecord.Format(), format.Options{}, "a.tfrecord", file("one", "two!"))
}

// TestMemory checks that a long record needs no more memory than a buffer.
func TestMemory(t *testing.T) {
	d, err := tfrecord.Format().Survey(t.Context(), scantest.Objects{"a.tfrecord": file("x")}, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := io.MultiReader(bytes.NewReader(head(64<<20)), io.LimitReader(zeros{}, 64<<20))
	if err := d.Scan(t.Context(), 0, in, scantest.Nothing{}); err == nil {
		t.Error("a record without its last checksum: got no error")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("got %d bytes for a record of 64 MiB", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// FuzzScanTFRecord checks that an accepted file equals the TFRecord file that is built from its
// records.
func FuzzScanTFRecord(f *testing.F) {
	f.Add(file("one", "", "three"), true)
	f.Add(file("one")[:8], false)
	f.Add([]byte("one\ntwo\n"), true)
	f.Fuzz(func(t *testing.T, b []byte, fixChecksums bool) {
		if fixChecksums { // otherwise the scan would reject almost all inputs because of their checksums
			b = file(strings.Split(string(b), "\n")...)
		}
		found, err := scan(format.Options{}, scantest.Objects{"a.tfrecord": b})
		scantest.Refused(t, err)
		if err != nil {
			if fixChecksums {
				t.Fatal(err)
			}
			return
		}
		var records []string
		for _, s := range found["a.tfrecord"] {
			records = append(records, string(b[s.Offset+s.Parts[0].Offset:s.Offset+s.Parts[0].Offset+s.Parts[0].Length]))
		}
		if got := file(records...); !bytes.Equal(got, b) {
			t.Fatalf("got %q from its records, want %q", got, b)
		}
	})
}
