package records_test

import (
	"bytes"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/testing/scantest"
)

// FuzzScanNPY checks that an accepted array is one header followed by contiguous records up to the
// end, and that NPYHeader writes an equivalent header.
func FuzzScanNPY(f *testing.F) {
	f.Add(npy(3))
	f.Add(literal(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1)}\n"))
	f.Add(literal(3, "{\"shape\":(1,),'descr':'|S3', 'fortran_order': False,}  \nabc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := scan(format.Options{}, scantest.Objects{"a.npy": b})
		scantest.Refused(t, err)
		if err != nil || found == nil {
			return
		}
		a, err := framing.ReadNPY(b[:min(len(b), format.HeadSize)])
		if err != nil {
			t.Fatal(err)
		}
		at := a.Start
		for _, s := range found["a.npy"] {
			if s.Offset != at {
				t.Fatalf("sample %s lies at %d, want %d", s.Key, s.Offset, at)
			}
			at += s.Length
		}
		if at != int64(len(b)) || uint64(len(found["a.npy"])) != a.Shape[0] {
			t.Fatalf("got %d samples up to %d of %d, want %d", len(found["a.npy"]), at, len(b), a.Shape[0])
		}
		again, err := framing.ReadNPY(framing.NPYHeader(a.DType.String(), a.Shape[0], a.Shape[1:]))
		if err != nil || again.DType != a.DType || len(again.Shape) != len(a.Shape) {
			t.Fatalf("written again: got %v, %v, want %v", again, err, a)
		}
	})
}

func FuzzScanFlat(f *testing.F) {
	f.Add([]byte("abcdef"), int64(3), "")
	f.Add(cifar(1, 1), int64(0), "data_batch_1")
	f.Add(cifar(2, 1), int64(0), "train")
	f.Fuzz(func(t *testing.T, b []byte, size int64, name string) {
		found, err := scan(format.Options{RecordSize: size}, scantest.Objects{name + ".bin": b})
		scantest.Refused(t, err)
		if err != nil {
			return
		}
		var joined []byte
		for _, s := range found[name+".bin"] {
			joined = append(joined, b[s.Offset:s.Offset+s.Length]...)
		}
		if found != nil && !bytes.Equal(joined, b) {
			t.Fatalf("got %d bytes of samples, want all %d", len(joined), len(b))
		}
	})
}
